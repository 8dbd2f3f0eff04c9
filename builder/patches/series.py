"""A whole series on a tree: every patch judged, in order, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from builder.context import Context
from builder.errors import PatchError
from builder.git import Objects
from builder.model import AppliedPatch, Package, PatchedTree, SourceTree
from builder.patches.explain import brief
from builder.patches.group import grouped
from builder.patches.judge import judge
from builder.patches.load import Patch, load_series
from builder.patches.moves import moved
from builder.patches.pulls import from_web, prove
from builder.patches.semantic import broken, unmet
from builder.patches.state import PatchVerdict, State, summed
from builder.patches.step import Step
from builder.patches.view import Blobs, View, write_tree


def judge_series(patches: Sequence[Patch], blobs: Blobs, tree: str, *, semantic: bool = True) -> tuple[Step, ...]:
    """Judge each patch on the tree as the good ones before it leave it; nothing is written.

    A patch that does not apply is passed over, so that every state is known in one run.
    """
    view = View(blobs, tree)
    steps: list[Step] = []
    for patch in patches:
        step = judge_patch(patch, view, semantic=semantic)
        steps.append(step)
        view = step.after
    return grouped(steps)


def judge_patch(patch: Patch, view: View, *, semantic: bool = True) -> Step:
    """Judge one patch on one view; `semantic` also parses the Python that it changes."""
    judged = judge(patch.diff, view)
    state, offset, reason = summed(judged.hunks, faulty=bool(patch.faults))
    if not judged.hunks and state is State.CLEAN:
        state, reason = State.CONFLICT, "empty"
    if _is_superseded(patch, view, state):
        state, offset, reason = State.SUPERSEDED, 0, ""
    verdict = PatchVerdict(patch.file, patch.sha256, state, offset, reason, judged.hunks, patch.faults)
    after = judged.after if state.applies and judged.after is not None else view
    verdict = _checked(patch, verdict, view, after, semantic=semantic)
    verdict = moved(patch, verdict, view) if semantic and verdict.reason == "missing" else verdict
    return Step(patch, verdict, view, after if verdict.state.good else view)


def _is_superseded(patch: Patch, view: View, state: State) -> bool:
    probes = patch.header.superseded_when
    if not probes or state in {State.MALFORMED, State.CONTAINED}:
        return False
    return all(probe.holds(view.read) for probe in probes)


def _checked(patch: Patch, verdict: PatchVerdict, before: View, after: View, *, semantic: bool) -> PatchVerdict:
    """The verdict with what the result fails to fulfil; its Python is parsed only with `semantic`."""
    if not verdict.state.applies:
        return verdict
    failed = broken(before, after, patch.diff.files) if semantic else ()
    if failed:
        return replace(verdict, state=State.CONFLICT, offset=0, reason="syntax", failed=failed)
    failed = unmet(patch.header.expects, after)
    if failed:
        return replace(verdict, state=State.CONFLICT, offset=0, reason="expects", failed=failed)
    return verdict


def apply_series(
    package: Package, source: SourceTree, context: Context, root: Path, *, accept: bool = False
) -> PatchedTree:
    """Apply the recipe's patches for a package, each as one commit with fixed dates.

    Pull requests that the recipe requires are proven first; one that the pin lacks is brought as a
    patch and goes before the series. All are judged before anything is written; if one is in
    conflict or malformed, PatchError tells every such patch. Contained and superseded patches make
    no commit. The resulting tree must be `package.result_tree`, unless `accept`.
    """
    pulls = prove(package, source, from_web(context.store))
    patches = (*(pull.patch for pull in pulls if pull.patch is not None), *load_series(package, root))
    objects = Objects(source.git_dir)
    steps = judge_series(patches, Blobs(objects), source.tree)
    refuse(package, steps)
    with context.store.lock(f"git-{package.name}"):
        commit, tree = _commit(package, source, objects, steps)
    _compare(package, tree, accept=accept)
    return PatchedTree(package.name, source.git_dir, commit, source.tree, tree, tuple(map(_applied, steps)))


def _applied(step: Step) -> AppliedPatch:
    verdict, header = step.verdict, step.patch.header
    return AppliedPatch(
        file=verdict.file,
        sha256=verdict.sha256,
        state=verdict.state.value,
        offset=verdict.offset,
        description=header.description,
        origin=header.origin,
        bugs=header.bugs,
    )


def _commit(package: Package, source: SourceTree, objects: Objects, steps: Sequence[Step]) -> tuple[str, str]:
    commit = objects.commit(source.tree, f"{package.name} {package.version}\n\nUpstream {source.commit}\n")
    tree = source.tree
    for step in steps:
        if step.verdict.state.applies:
            tree = write_tree(objects, View(step.after.blobs, tree, step.after.changes()))
            commit = objects.commit(tree, message(step.patch), commit)
    objects.set_ref(f"refs/spark-wheels/patched/{tree}", commit)
    return commit, tree


def message(patch: Patch) -> str:
    """The commit message of a patch."""
    return f"{patch.header.description or patch.file}\n\nPatch: {patch.file}\nSha256: {patch.sha256}\n"


def _compare(package: Package, tree: str, *, accept: bool) -> None:
    if accept or tree == package.result_tree:
        return
    unset = not package.result_tree.strip("0")
    raise PatchError(
        f"{package.name}: the patched tree is not pinned yet"
        if unset
        else f"{package.name}: the patched tree is another than the pinned one",
        where=f"result_tree of {package.name}",
        expected=f"{package.result_tree}, found {tree}",
        remedy=f'review the series, then set result_tree = "{tree}" in the recipe',
    )


def refuse(package: Package, steps: Sequence[Step]) -> None:
    """Raise PatchError that tells every patch which does not apply; nothing when all do."""
    bad = [step for step in steps if not step.verdict.state.good]
    if not bad:
        return
    raise PatchError(
        f"{package.name}: {len(bad)} of {len(steps)} patches do not apply; nothing was changed\n"
        + "\n".join(brief(step) for step in bad),
        where=", ".join(step.patch.file for step in bad),
        expected="every patch clean, offset, contained or superseded",
        remedy=f"`python -m builder patches status` shows the whole picture, `refresh` moves {package.name}'s series",
    )
