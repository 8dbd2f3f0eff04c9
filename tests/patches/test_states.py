"""States of patches: CASES.md 12, and what judging without fuzz means in the corners."""

from __future__ import annotations

import pygit2
import pytest

from builder.patches.load import read_patch
from builder.patches.series import judge_patch, judge_series
from builder.patches.state import PatchVerdict, State
from tests.patches.bench import Bench, Files, GitDiff

LINES = b"".join(b"line %d\n" % n for n in range(1, 61))
EDITED = LINES.replace(b"line 30\n", b"line thirty\n")


def verdict(bench: Bench, patch: bytes, tree: Files) -> PatchVerdict:
    return judge_patch(read_patch("x.patch", patch), bench.view(tree)).verdict


def labels(bench: Bench, tree: Files, *patches: bytes) -> list[str]:
    series = [read_patch(f"{n}.patch", data) for n, data in enumerate(patches)]
    return [step.verdict.label for step in judge_series(series, bench.blobs, bench.tree(tree))]


# -- CASES.md 12: six different, exact states ---------------------------------------------------


def six(git_diff: GitDiff) -> dict[str, tuple[bytes, dict[str, bytes]]]:
    """Each case as a patch and the tree that it meets."""
    patch = git_diff({"x.py": LINES}, {"x.py": EDITED})
    block = b"".join(b"    option %d = choose(the_best_of_all_values)\n" % n for n in range(4))
    adds = git_diff({"x.py": LINES}, {"x.py": LINES.replace(b"line 30\n", b"line 30\n" + block)})
    moved = git_diff({"old/place.py": LINES}, {"old/place.py": EDITED})
    many = dict.fromkeys(("a.py", "b.py", "tests/test_a.py"), LINES)
    hunks = LINES.replace(b"line 5\n", b"5\n").replace(b"line 30\n", b"30\n")
    six_hunks = git_diff(many, dict.fromkeys(many, hunks))
    return {
        "fuzz": (patch, {"x.py": LINES.replace(b"line 28\n", b"row 28\n")}),
        "contained": (patch, {"x.py": EDITED}),
        "duplicate": (adds, {"x.py": LINES + b"# options\n" + block}),
        "moved": (moved, {"new/place.py": LINES}),
        "counts": (patch.replace(b"@@ -27,7 +27,7 @@", b"@@ -27,7 +27,8 @@"), {"x.py": LINES}),
        "tests": (six_hunks, {**many, "tests/test_a.py": LINES.replace(b"line 31\n", b"row 31\n")}),
    }


@pytest.mark.parametrize(
    ("case", "label"),
    [
        ("fuzz", "conflict(context)"),
        ("contained", "contained"),
        ("duplicate", "conflict(duplicate)"),
        ("moved", "conflict(moved)"),
        ("counts", "malformed"),
        ("tests", "conflict(tests-only)"),
    ],
)
def test_six_cases_have_six_exact_states(bench: Bench, git_diff: GitDiff, case: str, label: str) -> None:
    patch, tree = six(git_diff)[case]
    before = sorted(bench.git_dir.rglob("*")) if bench.tree(tree) else []
    assert verdict(bench, patch, tree).label == label
    assert sorted(bench.git_dir.rglob("*")) == before


def test_one_hunk_of_six_is_named(bench: Bench, git_diff: GitDiff) -> None:
    patch, tree = six(git_diff)["tests"]
    hunks = verdict(bench, patch, tree).hunks
    assert len(hunks) == 6
    assert [(h.path, h.index, h.reason) for h in hunks if h.state is State.CONFLICT] == [
        ("tests/test_a.py", 2, "context")
    ]


def test_a_moved_file_is_found_and_said(bench: Bench, git_diff: GitDiff) -> None:
    patch, tree = six(git_diff)["moved"]
    assert verdict(bench, patch, tree).notes == ("old/place.py is now new/place.py",)


# -- counting and context faults in one run -----------------------------------------------------


def test_counts_and_context_are_told_together(bench: Bench, git_diff: GitDiff) -> None:
    after = LINES.replace(b"line 5\n", b"5\n").replace(b"line 30\n", b"30\n").replace(b"line 50\n", b"50\n")
    patch = git_diff({"x.py": LINES}, {"x.py": after}).replace(b"@@ -27,7 +27,7", b"@@ -27,7 +27,9")
    found = verdict(bench, patch, {"x.py": LINES.replace(b"line 50\n", b"row 50\n")})
    assert found.state is State.MALFORMED
    assert [(h.state, h.at, h.reason) for h in found.hunks] == [
        (State.CLEAN, 2, ""),
        (State.MALFORMED, 27, ""),
        (State.CONFLICT, 0, "context"),
    ]
    assert [fault.kind for fault in found.faults] == ["counts"]


# -- places -------------------------------------------------------------------------------------


def test_lines_above_make_an_offset(bench: Bench, git_diff: GitDiff) -> None:
    found = verdict(bench, git_diff({"x": LINES}, {"x": EDITED}), {"x": b"new\n" * 7 + LINES})
    assert (found.label, found.hunks[0].at) == ("offset(+7)", 34)


def test_two_places_are_ambiguous_and_both_are_named(bench: Bench, git_diff: GitDiff) -> None:
    found = verdict(bench, git_diff({"x": LINES}, {"x": EDITED}), {"x": b"top\n" + LINES + LINES})
    assert found.label == "conflict(ambiguous)"
    assert found.hunks[0].others == (28, 88)


def test_the_stated_line_decides_only_in_the_file_that_the_patch_was_made_on(bench: Bench, git_diff: GitDiff) -> None:
    twice = LINES + LINES
    patch = git_diff({"x": twice}, {"x": LINES + EDITED})
    assert verdict(bench, patch, {"x": twice}).label == "clean"
    assert verdict(bench, patch, {"x": twice + b"more\n"}).label == "conflict(ambiguous)"
    without_ids = b"".join(line for line in patch.splitlines(keepends=True) if not line.startswith(b"index "))
    assert verdict(bench, without_ids, {"x": twice + b"more\n"}).label == "clean"


TOP = b"import os\n\n\n"
BODY = b"""\
    def size(self):
        page = self.page
        return page

    def pages(self):
        return self.count


"""
MAMBA, DENSE = (b"class %s(Spec):\n    kind = '%s'\n\n" % (name, name.lower()) + BODY for name in (b"Mamba", b"Dense"))
END = b"def main():\n    return 1\n"


def mended(code: bytes) -> bytes:
    return code.replace(b"return page\n", b"return page * 2\n")


def of_mamba(git_diff: GitDiff, before: bytes) -> bytes:
    """A patch of Mamba alone, in a file of the given content."""
    return git_diff({"x.py": before}, {"x.py": before.replace(MAMBA, mended(MAMBA))})


def test_the_last_of_two_twins_is_not_taken_for_the_one_that_is_gone(bench: Bench, git_diff: GitDiff) -> None:
    both = TOP + MAMBA + DENSE + END
    patch = of_mamba(git_diff, both)
    assert verdict(bench, patch, {"x.py": both}).label == "clean"
    for above in (b"", b"top = 1\n" * 5):  # Dense stands at the stated line, and elsewhere
        found = verdict(bench, patch, {"x.py": above + TOP + DENSE + END})
        assert found.label == "conflict(ambiguous)"


def test_a_twin_that_changed_leaves_the_other_where_it_was(bench: Bench, git_diff: GitDiff) -> None:
    patch = of_mamba(git_diff, TOP + MAMBA + DENSE + END)
    bench.tree({"x.py": TOP + MAMBA + DENSE + END})
    theirs = DENSE.replace(b"return page", b"return 3")
    assert verdict(bench, patch, {"x.py": TOP + MAMBA + theirs + END}).label == "clean"
    patch = of_mamba(git_diff, TOP + DENSE + MAMBA + END)
    bench.tree({"x.py": TOP + DENSE + MAMBA + END})
    assert verdict(bench, patch, {"x.py": TOP + MAMBA + END}).label == "offset(-11)"


@pytest.mark.parametrize("known", [False, True])
def test_one_class_is_found_further_down(bench: Bench, git_diff: GitDiff, *, known: bool) -> None:
    one = TOP + MAMBA + END
    patch = of_mamba(git_diff, one)
    if known:
        bench.tree({"x.py": one})
    assert verdict(bench, patch, {"x.py": b"top = 1\n" * 5 + one}).label == "offset(+5)"


def test_without_the_old_file_the_header_must_name_what_stands_above(bench: Bench, git_diff: GitDiff) -> None:
    both = TOP + MAMBA + DENSE + END
    patch = of_mamba(git_diff, both)
    without_ids = b"".join(line for line in patch.splitlines(keepends=True) if not line.startswith(b"index "))
    for data in (patch, without_ids):
        assert b" @@ class Mamba(Spec):\n" in data
        assert verdict(bench, data, {"x.py": TOP + DENSE + END}).label == "conflict(ambiguous)"
        assert verdict(bench, data, {"x.py": TOP + DENSE + END + b"class Mamba: ...\n"}).label == "conflict(ambiguous)"
        based = MAMBA.replace(b"(Spec)", b"(Base, Spec)")
        assert verdict(bench, data, {"x.py": TOP + b"\n" + based + END}).label == "offset(+1)"


def test_what_stands_below_another_line_is_not_in_what_the_header_names(bench: Bench, git_diff: GitDiff) -> None:
    before = TOP + MAMBA + END
    patch = git_diff({"x.py": before}, {"x.py": before.replace(b"return 1", b"return 2")})
    assert b" @@ class Mamba(Spec):\n" in patch
    assert verdict(bench, patch, {"x.py": TOP + END}).label == "offset(-11)"


@pytest.mark.parametrize(
    ("section", "above", "label"),
    [
        ("def top(a):", b"    a = 1\n", "clean"),
        ("def gone(a):", b"    a = 1\n", "conflict(ambiguous)"),
        ("def top(a", b"    a = 1\n", "clean"),
        ("def to", b"    a = 1\n", "clean"),  # git cuts long lines
        ("def to()", b"    a = 1\n", "conflict(ambiguous)"),
        ("def gone(a):", b"    def inner():\n", "clean"),
        ("class Gone:", b"    def inner():\n", "conflict(ambiguous)"),
        ("gone = [", b"    a = 1\n", "clean"),
    ],
)
def test_what_a_hunk_header_names(bench: Bench, section: str, above: bytes, label: str) -> None:
    patch = b"--- a/x\n+++ b/x\n@@ -2,3 +2,3 @@ %s\n %s-        b = 2\n+        b = 3\n         c = 4\n"
    tree = b"def top(a):\n" + above + b"        b = 2\n        c = 4\n"
    assert verdict(bench, patch % (section.encode(), above), {"x": tree}).label == label


def test_an_id_that_is_no_file_or_cut_short_is_as_none(bench: Bench, git_diff: GitDiff) -> None:
    patch = git_diff({"x": LINES}, {"x": EDITED})
    full = patch.split(b"index ")[1][:40]
    for other in (bench.tree({"x": LINES}).encode(), full[:12]):
        assert verdict(bench, patch.replace(full, other), {"x": b"new\n" + LINES}).label == "offset(+1)"


def test_a_hunk_at_the_end_fits_only_the_end(bench: Bench, git_diff: GitDiff) -> None:
    patch = git_diff({"x": LINES}, {"x": LINES + b"last\n"})
    assert verdict(bench, patch, {"x": b"new\n" + LINES}).label == "offset(+1)"
    assert verdict(bench, patch, {"x": LINES + b"upstream's\n"}).label == "conflict(anchor)"


def test_a_hunk_without_context_has_no_place(bench: Bench, git_diff: GitDiff) -> None:
    patch = git_diff({"x": LINES}, {"x": LINES.replace(b"line 9\n", b"line 9\nline 9b\n")}, "-U0")
    assert verdict(bench, patch, {"x": LINES}).label == "conflict(bare)"


def test_line_endings_and_missing_newlines_are_bytes_like_others(bench: Bench, git_diff: GitDiff) -> None:
    crlf = LINES.replace(b"\n", b"\r\n")
    patch = git_diff({"x": LINES}, {"x": EDITED})
    assert verdict(bench, patch, {"x": crlf}).label == "conflict(context)"
    assert verdict(bench, git_diff({"x": crlf}, {"x": EDITED.replace(b"\n", b"\r\n")}), {"x": crlf}).label == "clean"
    bare = git_diff({"x": LINES[:-1]}, {"x": LINES[:-1] + b"0\nmore"})
    assert verdict(bench, bare, {"x": LINES[:-1]}).label == "clean"
    assert verdict(bench, bare, {"x": LINES}).label == "conflict(context)"


# -- contained, at that point of the series -----------------------------------------------------


def test_a_later_patch_on_lines_of_an_earlier_one_is_judged_after_it(bench: Bench, git_diff: GitDiff) -> None:
    again = EDITED.replace(b"line thirty\n", b"line thirty, mended\n")
    first, second = git_diff({"x": LINES}, {"x": EDITED}), git_diff({"x": EDITED}, {"x": again})
    assert labels(bench, {"x": LINES}, first, second) == ["clean", "clean"]
    assert labels(bench, {"x": EDITED}, first, second) == ["contained", "clean"]
    assert labels(bench, {"x": again}, first, second) == ["contained", "contained"]


def test_contained_together_names_the_later_patch(bench: Bench, git_diff: GitDiff) -> None:
    again = EDITED.replace(b"line thirty\n", b"line thirty, mended\n")
    series = [
        read_patch("1.patch", git_diff({"x": LINES}, {"x": EDITED})),
        read_patch("2.patch", git_diff({"x": EDITED}, {"x": again})),
    ]
    steps = judge_series(series, bench.blobs, bench.tree({"x": again}))
    assert [step.verdict.group for step in steps] == ["2.patch", ""]


def test_half_upstream_is_a_conflict_of_its_own(bench: Bench, git_diff: GitDiff) -> None:
    both = EDITED.replace(b"line 5\n", b"five\n")
    found = verdict(bench, git_diff({"x": LINES}, {"x": both}), {"x": EDITED})
    assert found.label == "conflict(partial)"
    assert [hunk.state for hunk in found.hunks] == [State.CLEAN, State.CONTAINED]


def test_a_block_that_repeats_is_not_put_in_again(bench: Bench) -> None:
    """Applied once, this hunk still fits one block further on; reversed, it fits, too."""
    block = b"alpha beta gamma delta\nepsilon zeta eta theta\niota kappa lambda mu\n"
    patch = (
        b"--- a/x\n+++ b/x\n@@ -2,4 +2,7 @@\n"
        + b"".join(b" " + line for line in block.splitlines(keepends=True))
        + b"".join(b"+" + line for line in block.splitlines(keepends=True))
        + b" end\n"
    )
    assert verdict(bench, patch, {"x": b"top\n" + block + b"end\n"}).label == "clean"
    assert verdict(bench, patch, {"x": b"top\n" + block + block + b"end\n"}).label == "conflict(duplicate)"


# -- whole files --------------------------------------------------------------------------------


def test_creating_deleting_and_their_conflicts(bench: Bench, git_diff: GitDiff) -> None:
    create, delete = git_diff({}, {"d/new.py": b"a = 1\n"}), git_diff({"d/new.py": b"a = 1\n"}, {})
    assert verdict(bench, create, {"x": LINES}).label == "clean"
    assert verdict(bench, create, {"d/new.py": b"a = 1\n"}).label == "contained"
    assert verdict(bench, create, {"d/new.py": b"a = 2\n"}).label == "conflict(exists)"
    assert verdict(bench, create, {"d": b"a file where a folder is needed\n"}).label == "conflict(exists)"
    assert verdict(bench, create, {"d/new.py/below": b"a folder of that name\n"}).label == "conflict(exists)"
    assert verdict(bench, delete, {"d/new.py": b"a = 1\n"}).label == "clean"
    assert verdict(bench, delete, {"x": LINES}).label == "contained"
    assert verdict(bench, delete, {"d/new.py": b"a = 1\nb = 2\n"}).label == "conflict(leftover)"


RENAME = b"diff --git a/old.py b/new.py\nsimilarity index 90%\nrename from old.py\nrename to new.py\n"


def test_renames_with_and_without_changes(bench: Bench, git_diff: GitDiff) -> None:
    hunk = git_diff({"x": LINES}, {"x": EDITED}).split(b"\n+++ ", 1)[1].split(b"\n", 1)[1]
    changed = RENAME + b"--- a/old.py\n+++ b/new.py\n" + hunk
    step = judge_patch(read_patch("r", changed), bench.view({"old.py": LINES}))
    assert step.verdict.label == "clean"
    assert {path: file and file.data for path, file in step.after.changes().items()} == {
        "old.py": None,
        "new.py": EDITED,
    }
    assert verdict(bench, changed, {"new.py": EDITED}).label == "contained"
    assert verdict(bench, RENAME, {"old.py": LINES, "new.py": b"other\n"}).label == "conflict(exists)"
    assert verdict(bench, RENAME, {"x": LINES}).label == "conflict(missing)"


def test_moving_without_changes_is_contained_where_the_same_file_is_there(bench: Bench) -> None:
    copy = RENAME.replace(b"rename", b"copy")
    assert verdict(bench, copy, {"old.py": LINES}).label == "clean"
    assert verdict(bench, copy, {"old.py": LINES, "new.py": LINES}).label == "contained"
    assert verdict(bench, copy, {"old.py": LINES, "new.py": b"other\n"}).label == "conflict(exists)"
    assert verdict(bench, copy, {"new.py": b"other\n"}).label == "conflict(exists)"
    assert verdict(bench, RENAME, {"new.py": LINES}).label == "contained"
    for head in (RENAME, copy):
        named = head + b"index %s..%s 100644\n" % ((str(pygit2.hash(LINES)).encode(),) * 2)
        assert verdict(bench, named, {"new.py": LINES}).label == "contained"
        assert verdict(bench, named, {"new.py": b"other\n"}).label == "conflict(exists)"


def test_modes_and_links(bench: Bench) -> None:
    mode = read_patch("m", b"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n")
    plain, executable = (bench.tree({"run.sh": b"x\n"}, {"run.sh": bits}) for bits in (0o100644, 0o100755))
    (step,) = judge_series([mode], bench.blobs, plain)
    changed = step.after.get("run.sh")
    assert changed is not None
    assert (step.verdict.label, changed.mode) == ("clean", 0o100755)
    assert judge_series([mode], bench.blobs, executable)[0].verdict.label == "contained"
    link = bench.tree({"run.sh": b"target"}, {"run.sh": 0o120000})
    assert judge_series([mode], bench.blobs, link)[0].verdict.label == "conflict(type)"
    through = read_patch(
        "t", b"--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-target\n\\ No newline at end of file\n+/etc\n"
    )
    assert judge_series([through], bench.blobs, link)[0].verdict.label == "conflict(type)"


# -- after applying -----------------------------------------------------------------------------

CODE = b"TABLE = {\n    'a': 1,\n    'b': 2,\n}\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"    return 2\n", b"    return (2\n", "x.py: line 12"),
        (b"    'b': 2,\n", b"    'b': 2,\n    'a': 3,\n", "x.py:4: key 'a' is there twice"),
        (b"def g():", b"def f():", "x.py:11: definition f is there twice"),
    ],
)
def test_python_that_no_longer_holds_is_a_conflict(
    bench: Bench, git_diff: GitDiff, old: bytes, new: bytes, said: str
) -> None:
    found = verdict(bench, git_diff({"x.py": CODE}, {"x.py": CODE.replace(old, new)}), {"x.py": CODE})
    assert found.label == "conflict(syntax)"
    assert found.failed[0].startswith(said)


def test_what_a_patch_promises_must_be_true(bench: Bench, git_diff: GitDiff) -> None:
    diff = git_diff({"x.py": CODE}, {"x.py": CODE.replace(b"'b': 2", b"'c': 2")})
    assert verdict(bench, b"Expects: x.py: key TABLE c\n---\n" + diff, {"x.py": CODE}).label == "clean"
    broken = verdict(bench, b"Expects: x.py: key TABLE z\n---\n" + diff, {"x.py": CODE})
    assert (broken.label, broken.failed) == ("conflict(expects)", ("x.py: key TABLE z",))


def test_superseded_is_what_the_probe_says(bench: Bench, git_diff: GitDiff) -> None:
    head = b"Superseded-When: x.py: def better\n---\n"
    diff = git_diff({"x.py": CODE}, {"x.py": CODE.replace(b"return 2", b"return 3")})
    theirs = CODE.replace(b"def g()", b"def better()")
    assert verdict(bench, head + diff, {"x.py": theirs}).label == "superseded"
    assert verdict(bench, head + diff, {"x.py": CODE}).label == "clean"
    assert verdict(bench, head, {"x.py": theirs}).label == "superseded"
    assert verdict(bench, head, {"x.py": CODE}).label == "conflict(empty)"
    assert verdict(bench, b"just words\n", {"x.py": CODE}).label == "malformed"
