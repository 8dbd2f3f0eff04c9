"""apply_series: all judged before anything changes, fixed commits, the result held to its pin."""

from __future__ import annotations

import pytest

from builder.errors import PatchError
from builder.patches import apply_series
from tests.patches.bench import Bench, GitDiff

LINES = b"".join(b"line %d\n" % n for n in range(1, 31))
EDITED = LINES.replace(b"line 9\n", b"line nine\n")
TWICE = EDITED.replace(b"line nine\n", b"line nine, again\n").replace(b"line 25\n", b"")


def test_a_series_becomes_commits_that_no_clock_decides(bench: Bench, git_diff: GitDiff) -> None:
    tree = bench.tree({"x.txt": LINES})
    first = bench.save("0001-nine.patch", git_diff({"x.txt": LINES}, {"x.txt": EDITED}))
    second = bench.save("0002-again.patch", git_diff({"x.txt": EDITED}, {"x.txt": TWICE}))
    package = bench.package(first, second, result=bench.tree({"x.txt": TWICE}))
    done = apply_series(package, bench.source(tree), bench.context, bench.root)
    assert bench.read(done.tree) == {"x.txt": TWICE}
    assert done.base_tree == tree
    assert [(patch.file, patch.state, patch.offset) for patch in done.applied] == [
        (first, "clean", 0),
        (second, "clean", 0),
    ]
    assert bench.objects.tree_of(done.commit) == done.tree
    assert apply_series(package, bench.source(tree), bench.context, bench.root) == done


def test_a_result_without_a_pin_is_told_and_refused_unless_accepted(bench: Bench, git_diff: GitDiff) -> None:
    tree = bench.tree({"x.txt": LINES})
    package = bench.package(bench.save("0001-nine.patch", git_diff({"x.txt": LINES}, {"x.txt": EDITED})))
    with pytest.raises(PatchError, match=bench.tree({"x.txt": EDITED})) as caught:
        apply_series(package, bench.source(tree), bench.context, bench.root)
    assert "not pinned yet" in caught.value.what
    done = apply_series(package, bench.source(tree), bench.context, bench.root, accept=True)
    assert bench.read(done.tree) == {"x.txt": EDITED}


def test_a_result_that_is_not_the_pinned_one_is_refused(bench: Bench, git_diff: GitDiff) -> None:
    tree = bench.tree({"x.txt": LINES})
    name = bench.save("0001-nine.patch", git_diff({"x.txt": LINES}, {"x.txt": EDITED}))
    with pytest.raises(PatchError, match="another than the pinned one"):
        apply_series(bench.package(name, result=tree), bench.source(tree), bench.context, bench.root)


def test_a_failing_series_leaves_nothing_behind(bench: Bench, git_diff: GitDiff) -> None:
    tree = bench.tree({"x.txt": LINES})
    good = bench.save("0001-nine.patch", git_diff({"x.txt": LINES}, {"x.txt": EDITED}))
    other = LINES.replace(b"line 20", b"row 20")
    bad = bench.save("0002-bad.patch", git_diff({"x.txt": other}, {"x.txt": other.replace(b"line 21", b"row 21")}))
    before = sorted(bench.git_dir.rglob("*"))
    with pytest.raises(PatchError) as caught:
        apply_series(bench.package(good, bad), bench.source(tree), bench.context, bench.root, accept=True)
    assert sorted(bench.git_dir.rglob("*")) == before
    text = str(caught.value)
    assert "0002-bad.patch: conflict(context)" in text
    assert "row 20" in text
    assert "≠ line 20" in text
    assert "% alike" in text


def test_every_failing_patch_is_told_at_once(bench: Bench, git_diff: GitDiff) -> None:
    tree = bench.tree({"x.txt": LINES})
    gone = bench.save("0001-gone.patch", git_diff({"y.txt": LINES}, {"y.txt": EDITED}))
    hurt = git_diff({"x.txt": LINES}, {"x.txt": EDITED}).replace(b"@@ -6,7 +6,7 @@", b"@@ -6,7 +6,9 @@")
    bench.save("0002-hurt.patch", hurt)
    with pytest.raises(PatchError) as caught:
        apply_series(bench.package(gone, "0002-hurt.patch"), bench.source(tree), bench.context, bench.root)
    assert "conflict(missing)" in str(caught.value)
    assert "line 5: the hunk header counts 7 old and 9 new lines; the hunk has 7 and 7" in str(caught.value)


def test_a_listed_patch_that_is_missing_is_named_with_the_nearest(bench: Bench) -> None:
    bench.save("0001-nine.patch", b"")
    with pytest.raises(PatchError, match=r"did you mean 0001-nine\.patch"):
        apply_series(bench.package("0001-nin.patch"), bench.source(bench.tree({})), bench.context, bench.root)


def test_no_patches_give_the_source_tree(bench: Bench) -> None:
    tree = bench.tree({"x.txt": LINES})
    done = apply_series(bench.package(result=tree), bench.source(tree), bench.context, bench.root)
    assert (done.tree, done.applied) == (tree, ())
