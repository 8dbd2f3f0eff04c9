"""Moving a series onto another release, through conflicts, and back out of them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import PatchError, UsageError
from builder.model import Package
from builder.patches import apply_series
from builder.patches.load import read_patch
from builder.patches.pins import repinned
from builder.patches.refresh import Refresh, resume, start
from tests.patches.bench import Bench, Files, GitDiff

LINES = b"".join(b"line %d\n" % n for n in range(1, 61))
ONE = LINES.replace(b"line 10\n", b"line ten\n")
TWO = ONE.replace(b"line 40\n", b"line forty\n")
HEADER = b"""Description: what it mends
 in two lines
Bug: none
Origin: ours
Applies-To: vllm 0.20.0
Drop-When: never
---
"""

RECIPE = """# a comment that stays
[[package]]
name = "flashinfer-python"
version = "0.6.8"

[[package]]
name = "vllm"  # the engine
version = "0.20.0"
commit = "bbbb"
git_tree = "cccc"
patches = [
    "vllm/0001-ten.patch",
    "vllm/0002-forty.patch",
]

[package.prebuilt]
wheel = "w"
"""


class Series:
    """Two patches on 0.20.0 and a recipe that pins them."""

    def __init__(self, bench: Bench, git_diff: GitDiff) -> None:
        self.bench = bench
        self.old = bench.tree({"x.txt": LINES, "y.txt": b"y\n"})
        bench.save("0001-ten.patch", HEADER + git_diff({"x.txt": LINES}, {"x.txt": ONE}))
        bench.save("0002-forty.patch", HEADER + git_diff({"x.txt": ONE}, {"x.txt": TWO}))
        self.recipe = bench.root / "recipes" / "r.toml"
        self.recipe.parent.mkdir()
        self.recipe.write_text(RECIPE)
        self.package = replace(
            bench.package("vllm/0001-ten.patch", "vllm/0002-forty.patch", tree=self.old), git_tree="c"
        )

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.bench.root.rglob("*")) if path.is_file()}

    def to(self, files: Files) -> Refresh:
        tree = self.bench.tree(files)
        target = replace(self.package, version="0.21.0", commit="d" * 40, sdist="v.tar.gz", sha256="e" * 64, tree=tree)
        source = self.bench.source
        return start(
            self.package, source(self.old), target, source(tree), self.bench.context, self.bench.root, self.recipe
        )

    def go(self, word: str) -> Refresh:
        return resume(word, self.package, self.bench.context, self.bench.root, self.recipe)  # type: ignore[arg-type]

    def applied(self, files: Files) -> dict[str, bytes]:
        """The recipe as it now stands, applied to that release."""
        table = tomllib.loads(self.recipe.read_text())["package"][1]
        package: Package = replace(
            self.package, patches=tuple(table["patches"]), result_tree=table["result_tree"], version=table["version"]
        )
        done = apply_series(package, self.bench.source(self.bench.tree(files)), self.bench.context, self.bench.root)
        assert {patch.state for patch in done.applied} <= {"clean", "contained"}
        return self.bench.read(done.tree)


@pytest.fixture
def series(bench: Bench, git_diff: GitDiff) -> Series:
    return Series(bench, git_diff)


def test_the_same_files_keep_the_same_bytes(series: Series) -> None:
    before = series.files()
    done = series.to({"x.txt": LINES, "y.txt": b"other\n"})
    assert [moved.outcome for moved in done.moved] == ["kept", "kept"]
    for name in ("0001-ten.patch", "0002-forty.patch"):
        assert series.files()[name] == before[name].replace(b"vllm 0.20.0", b"vllm 0.21.0")


def test_an_export_is_what_git_writes(series: Series, git_diff: GitDiff) -> None:
    done = series.to({"x.txt": b"new first line\n" + LINES, "y.txt": b"y\n"})
    assert [moved.outcome for moved in done.moved] == ["exact", "exact"]
    wanted = git_diff({"x.txt": b"new first line\n" + LINES}, {"x.txt": b"new first line\n" + ONE})
    assert series.files()["0001-ten.patch"] == HEADER.replace(b"0.20.0", b"0.21.0") + wanted


def test_pins_are_set_and_everything_else_in_the_recipe_stays(series: Series) -> None:
    release = {"x.txt": b"new\n" + LINES}
    done = series.to(release)
    assert series.applied(release) == {"x.txt": b"new\n" + TWO}
    text = series.recipe.read_text()
    table = tomllib.loads(text)["package"][1]
    assert {key: table[key] for key in ("version", "commit", "sdist", "sha256", "tree", "result_tree")} == {
        "version": "0.21.0", "commit": "d" * 40, "sdist": "v.tar.gz", "sha256": "e" * 64,
        "tree": series.bench.tree(release), "result_tree": done.result_tree,
    }  # fmt: skip
    assert "git_tree" not in table
    assert text.startswith("# a comment that stays\n")
    assert 'name = "vllm"  # the engine\n' in text
    assert tomllib.loads(text)["package"][0]["version"] == "0.6.8"
    assert any("git_tree was removed" in note for note in done.notes)


def test_changed_context_is_merged(series: Series) -> None:
    release = {"x.txt": LINES.replace(b"line 8\n", b"row 8\n")}
    done = series.to(release)
    assert [moved.outcome for moved in done.moved] == ["merged", "exact"]
    assert series.applied(release) == {"x.txt": TWO.replace(b"line 8\n", b"row 8\n")}


def test_a_renamed_file_is_followed(series: Series) -> None:
    done = series.to({"lib/x.txt": LINES, "y.txt": b"y\n"})
    assert [moved.outcome for moved in done.moved] == ["merged", "merged"]
    assert series.applied({"lib/x.txt": LINES, "y.txt": b"y\n"}) == {"lib/x.txt": TWO, "y.txt": b"y\n"}


def test_what_upstream_took_is_contained(series: Series) -> None:
    done = series.to({"x.txt": ONE})
    assert [moved.outcome for moved in done.moved] == ["contained", "kept"]
    assert "0001-ten.patch is contained in 0.21.0" in done.notes[0]
    assert series.applied({"x.txt": ONE}) == {"x.txt": TWO}


@pytest.mark.parametrize("promise", [b"", b"Expects: x.txt: text line ten\n"])
def test_what_upstream_took_among_other_lines_leaves_the_recipe(series: Series, promise: bytes) -> None:
    path = series.bench.root / "patches/vllm/0001-ten.patch"
    path.write_bytes(promise + path.read_bytes())
    release = {"x.txt": ONE.replace(b"line 12\n", b"row 12\n")}
    done = series.to(release)
    assert [moved.outcome for moved in done.moved] == ["taken", "exact"]
    assert "0001-ten.patch is wholly in 0.21.0" in done.notes[0]
    assert tomllib.loads(series.recipe.read_text())["package"][1]["patches"] == ["vllm/0002-forty.patch"]
    assert series.applied(release) == {"x.txt": TWO.replace(b"line 12\n", b"row 12\n")}


def test_what_upstream_took_without_what_it_promises_is_a_stop(series: Series) -> None:
    path = series.bench.root / "patches/vllm/0001-ten.patch"
    path.write_bytes(b"Expects: x.txt: text line 12\n" + path.read_bytes())
    stopped = series.to({"x.txt": ONE.replace(b"line 12\n", b"row 12\n")})
    assert (stopped.done, stopped.why) == (False, "not true: x.txt: text line 12")


THEIRS = {"x.txt": LINES.replace(b"line 10\n", b"line 10, theirs\n"), "y.txt": b"y\n"}


def test_a_conflict_stops_with_a_work_tree_and_nothing_else_changed(series: Series) -> None:
    before = series.files()
    stopped = series.to(THEIRS)
    assert (stopped.done, stopped.conflicts, stopped.moved) == (False, ("x.txt",), ())
    text = (Path(stopped.work) / "x.txt").read_bytes()
    assert b"<<<<<<<" in text
    assert b"line ten\n" in text
    assert b"line 10, theirs\n" in text
    assert (Path(stopped.work) / "y.txt").read_bytes() == b"y\n"
    assert series.files() == before
    with pytest.raises(PatchError, match="is under way"):
        series.to(THEIRS)


def test_a_mended_conflict_goes_on(series: Series) -> None:
    stopped = series.to(THEIRS)
    with pytest.raises(PatchError, match=r"conflict markers are left at x\.txt:10"):
        series.go("continue")
    (Path(stopped.work) / "x.txt").write_bytes(THEIRS["x.txt"])
    with pytest.raises(PatchError, match="nothing of this patch"):
        series.go("continue")
    (Path(stopped.work) / "x.txt").write_bytes(THEIRS["x.txt"].replace(b"line 10, theirs\n", b"line ten, ours\n"))
    done = series.go("continue")
    assert [moved.outcome for moved in done.moved] == ["by hand", "exact"]
    assert b"line ten, ours\n" in series.applied(THEIRS)["x.txt"]
    with pytest.raises(UsageError, match="no refresh of vllm is under way"):
        series.go("continue")


def test_a_promise_that_no_longer_matters_can_be_taken_out_on_the_way(series: Series) -> None:
    path = series.bench.root / "patches/vllm/0001-ten.patch"
    promise = b"Expects: x.txt: text line ten\n"
    path.write_bytes(promise + path.read_bytes())
    stopped = series.to(THEIRS)
    (Path(stopped.work) / "x.txt").write_bytes(THEIRS["x.txt"].replace(b"line 10, theirs\n", b"ten\n"))
    with pytest.raises(PatchError, match="as mended, does not hold"):
        series.go("continue")
    path.write_bytes(path.read_bytes().removeprefix(promise))
    assert series.go("continue").moved[0].outcome == "by hand"
    assert not path.read_bytes().startswith(promise)


def test_a_skipped_patch_leaves_the_recipe(series: Series) -> None:
    series.to(THEIRS)
    done = series.go("skip")
    assert [moved.outcome for moved in done.moved] == ["skipped", "exact"]
    assert tomllib.loads(series.recipe.read_text())["package"][1]["patches"] == ["vllm/0002-forty.patch"]
    assert series.applied(THEIRS)["x.txt"] == THEIRS["x.txt"].replace(b"line 40\n", b"line forty\n")


def test_an_aborted_refresh_changed_nothing(series: Series) -> None:
    before = series.files()
    stopped = series.to(THEIRS)
    assert "nothing was changed" in series.go("abort").why
    assert series.files() == before
    assert not Path(stopped.work).exists()


def test_a_file_deleted_upstream_is_a_conflict_that_names_it(series: Series) -> None:
    stopped = series.to({"y.txt": b"y\n"})
    assert stopped.conflicts == ("x.txt",)
    assert "gone upstream or here: x.txt" in stopped.why


def test_patch_files_that_changed_meanwhile_are_refused(series: Series) -> None:
    series.to(THEIRS)
    series.bench.save("0002-forty.patch", b"other")
    with pytest.raises(PatchError, match="others than when the refresh began"):
        series.go("skip")


def test_a_series_that_does_not_apply_where_it_is_pinned_cannot_be_moved(series: Series) -> None:
    series.old = series.bench.tree({"x.txt": b"else\n"})
    with pytest.raises(PatchError, match="patches do not apply"):
        series.to({"x.txt": LINES})


def test_exports_of_creations_deletions_modes_and_odd_names(bench: Bench) -> None:
    from builder.patches.export import diff_bytes

    before = {"gone.py": b"a\n", "run.sh": b"x\n", "old name.txt": LINES, "ü\t.txt": b"1\n2"}
    after = {"new.py": b"b\nc", "run.sh": b"x\n", "new name.txt": ONE, "ü\t.txt": b"1\n2\n"}
    old, new = bench.tree(before), bench.tree(after, {"run.sh": 0o100755})
    diff = read_patch("x", diff_bytes(bench.objects, old, new))
    assert diff.faults == ()
    assert sorted(file.kind for file in diff.diff.files) == ["create", "delete", "modify", "modify", "rename"]
    from builder.patches.series import judge_series
    from builder.patches.view import write_tree

    (step,) = judge_series([diff], bench.blobs, old)
    assert write_tree(bench.objects, step.after) == new


@pytest.mark.parametrize("text", ["", '[[package]]\nname = "other"\n'])
def test_a_recipe_without_the_package_is_refused(text: str) -> None:
    with pytest.raises(PatchError, match=r"no \[\[package\]\] named vllm"):
        repinned(text, "vllm", {"version": "1"}, "r.toml")
