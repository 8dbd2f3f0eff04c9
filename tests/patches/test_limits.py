"""Big and strange input: clear, fast, bounded memory."""

from __future__ import annotations

import resource
import time
import tracemalloc
from pathlib import Path

import pytest

from builder.errors import PatchError
from builder.patches import apply_series
from builder.patches.load import read_patch
from builder.patches.parse import MAX_BYTES
from builder.patches.series import judge_patch
from builder.patches.state import State
from tests.patches.bench import Bench, GitDiff


def test_a_patch_of_100_mb_is_refused_unread(bench: Bench) -> None:
    path = bench.root / "patches" / "vllm" / "0001-huge.patch"
    bench.save("0001-huge.patch", b"")
    with path.open("r+b") as stream:
        stream.truncate(100_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(PatchError, match="the patch has 100 MB; the limit is 8 MB"):
        apply_series(bench.package("0001-huge.patch"), bench.source(bench.tree({})), bench.context, bench.root)
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB


def test_reading_takes_memory_in_proportion() -> None:
    line = b"+" + b"x" * 98 + b"\n"
    count = MAX_BYTES // 1000
    data = b"--- /dev/null\n+++ b/x\n@@ -0,0 +1,%d @@\n" % count + line * count
    tracemalloc.start()
    patch = read_patch("x", data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert patch.faults == ()
    assert peak < 8 * len(data)


def test_ten_thousand_hunks_are_placed(bench: Bench) -> None:
    lines = [b"line %d\n" % n for n in range(100_000)]
    edited = [b"edited %d\n" % n if n % 10 == 5 else line for n, line in enumerate(lines)]
    hunk = b"@@ -%d,3 +%d,3 @@\n line %d\n-line %d\n+edited %d\n line %d\n"
    hunks = (hunk % (n, n, n - 1, n, n, n + 1) for n in range(5, 100_000, 10))
    patch = read_patch("x", b"--- a/x\n+++ b/x\n" + b"".join(hunks))
    assert len(patch.diff.files[0].hunks) == 10_000
    start = time.process_time()
    step = judge_patch(patch, bench.view({"x": b"new\n" + b"".join(lines)}))
    assert time.process_time() - start < 6
    assert step.verdict.label == "offset(+1)"
    assert step.after.read("x") == b"new\n" + b"".join(edited)


def test_ten_thousand_hunks_that_fit_nowhere_are_told_shortly(bench: Bench) -> None:
    hunk = b"@@ -%d,3 +%d,3 @@\n gone\n-from\n+to\n here\n"
    data = b"--- a/x\n+++ b/x\n" + b"".join(hunk % (n, n) for n in range(1, 100_000, 10))
    bench.save("0001-many.patch", data)
    tree = bench.tree({"x": b"a\nb\n" * 50_000})
    start = time.process_time()
    with pytest.raises(PatchError) as caught:
        apply_series(bench.package("0001-many.patch"), bench.source(tree), bench.context, bench.root)
    assert time.process_time() - start < 6
    assert str(caught.value).count("\n") < 60
    assert "and 9980 more" in str(caught.value)


def test_the_same_line_a_hundred_thousand_times_is_ambiguous_at_once(bench: Bench) -> None:
    data = b"--- a/x\n+++ b/x\n@@ -200000,4 +200000,4 @@\n same\n-same\n+other\n same\n same\n"
    start = time.process_time()
    verdict = judge_patch(read_patch("x", data), bench.view({"x": b"same\n" * 100_000})).verdict
    assert time.process_time() - start < 3
    assert verdict.label == "conflict(ambiguous)"


def test_a_file_that_the_sdist_lacks_is_named(bench: Bench, git_diff: GitDiff) -> None:
    name = bench.save("0001-csrc.patch", git_diff({"csrc/ö x.cu": b"1\n2\n"}, {"csrc/ö x.cu": b"1\n3\n"}))
    with pytest.raises(PatchError, match=r"csrc/ö x\.cu, part 1 of 1, line 5.*the tree has no such file"):
        apply_series(bench.package(name), bench.source(bench.tree({"a": b""})), bench.context, bench.root)


@pytest.mark.parametrize("name", ["../evil.patch", "/etc/passwd", "vllm//x.patch"])
def test_a_patch_outside_of_its_folder_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(PatchError, match="no path under patches/"):
        apply_series(bench.package(name), bench.source(bench.tree({})), bench.context, bench.root)


def test_random_bytes_are_malformed_and_never_a_traceback(bench: Bench, tmp_path: Path) -> None:
    del tmp_path
    view = bench.view({"x": b"1\n"})
    for seed in range(200):
        data = bytes((seed * 31 + n * n) % 256 for n in range(seed * 3))
        assert judge_patch(read_patch("x", data), view).verdict.state is State.MALFORMED
