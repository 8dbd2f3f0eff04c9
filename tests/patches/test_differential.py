"""The engine against `git apply` and `patch --fuzz=0` on generated pairs of tree and patch.

What is allowed to differ, and why:

* the engine refuses what both take: an ambiguous or bare place (they guess the nearest), a block
  that would be there twice, wrong counts or starts (they ignore the rest of the hunk), CRLF
  headers, headers that contradict one another;
* it takes what patch refuses or places elsewhere: patch does not hold a hunk without trailing
  context to the end of the file;
* it agrees with patch against git where git joins a line without newline to the next one.

It never takes what git refuses.
"""

from __future__ import annotations

from collections import Counter

import pytest

from builder.git import EMPTY_TREE, Entry
from builder.patches.load import read_patch
from builder.patches.series import judge_patch
from builder.patches.state import PatchVerdict
from builder.patches.view import View
from tests.patches.bench import Bench
from tests.patches.pairs import GIT, PATCH, Pair, Tree, make_pair

STRICTER = {"ambiguous", "bare", "duplicate", "counts", "order", "crlf", "header", "endings"}


def engine(bench: Bench, pair: Pair) -> tuple[Tree | None, PatchVerdict]:
    entries = {path: Entry(0o100644, bench.objects.write(data)) for path, data in pair.tree.items()}
    view = View(bench.blobs, bench.objects.edit(EMPTY_TREE, entries))
    step = judge_patch(read_patch("x.patch", pair.patch), view, semantic=False)
    if not step.verdict.state.applies:
        return None, step.verdict
    tree: Tree = dict(pair.tree)
    for path, file in step.after.changes().items():
        tree.pop(path, None)
        if file is not None:
            tree[path] = file.data
    return dict(sorted(tree.items())), step.verdict


def reasons(verdict: PatchVerdict) -> set[str]:
    """Why it was refused, in the words of STRICTER."""
    return {fault.kind for fault in verdict.faults} | {hunk.reason for hunk in verdict.hunks if hunk.reason}


def judge_pair(bench: Bench, seed: int) -> str:
    """Compare all three on one pair; a word for the kind of agreement."""
    pair = make_pair(seed)
    ours, verdict = engine(bench, pair)
    git, patch = GIT.result(pair, bench.root / "git"), PATCH.result(pair, bench.root / "patch")
    told = f"seed {seed}: {pair.story}: {verdict.label}"
    if ours is None:
        if git is not None and patch is not None:
            assert reasons(verdict) & STRICTER, told
            return f"stricter: {', '.join(sorted(reasons(verdict) & STRICTER))}"
        return "all refuse" if git is patch else "engine and git refuse" if git is None else "engine and patch refuse"
    assert git is not None, told
    assert ours in (git, patch), told
    if ours == git == patch:
        return "all make the same tree"
    return "engine and git make the same tree" if ours == git else "engine and patch make the same tree"


def agreement(bench: Bench, seeds: range) -> Counter[str]:
    return Counter(judge_pair(bench, seed) for seed in seeds)


def test_some_hundred_pairs_agree_with_git_and_patch(bench: Bench) -> None:
    counted = agreement(bench, range(250))
    assert counted["all make the same tree"] > 40
    assert counted["all refuse"] > 80


@pytest.mark.slow
def test_thousands_of_pairs_agree_with_git_and_patch(bench: Bench) -> None:
    counted = agreement(bench, range(1000, 5000))
    for kind, count in counted.most_common():
        print(f"{count:6} {kind}")  # noqa: T201  the table in docs/patches.md
    assert counted["engine and patch make the same tree"] <= 12
