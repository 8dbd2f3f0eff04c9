"""Checkouts that touch only what differs, also after a kill; trees and commits as git makes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.errors import SourceError
from builder.git import EMPTY_TREE, EPOCH, Entry, Objects

ROOT = Path(__file__).parents[2]
BLOB, EXECUTABLE, LINK, GITLINK = 0o100644, 0o100755, 0o120000, 0o160000
Files = Mapping[str, tuple[int, bytes]]


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path / "store" / "pkg.git")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "src"


def _tree(objects: Objects, files: Files) -> str:
    entries: dict[str, Entry | None] = {
        path: Entry(mode, "1" * 40 if mode == GITLINK else objects.write(data)) for path, (mode, data) in files.items()
    }
    with tempfile.TemporaryDirectory() as nothing:
        empty = objects.import_folder(Path(nothing))
    return objects.edit(empty, entries)


def _held(folder: Path) -> dict[str, tuple[int, bytes]]:
    held = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            held[name] = (LINK, os.fsencode(path.readlink()))
        elif path.is_file():
            held[name] = (EXECUTABLE if path.stat().st_mode & 0o100 else BLOB, path.read_bytes())
    return held


def _times(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in folder.rglob("*") if not path.is_dir()
    }


ONE: Files = {
    "a.cu": (BLOB, b"a"),
    "csrc/b.cu": (BLOB, b"b"),
    "csrc/gone.cu": (BLOB, b"gone"),
    "run.sh": (EXECUTABLE, b"#!/bin/sh\n"),
    "link": (LINK, b"csrc/b.cu"),
    "dangling": (LINK, b"nowhere"),
}
TWO: Files = {
    "a.cu": (BLOB, b"changed"),
    "csrc/b.cu": (BLOB, b"b"),
    "run.sh": (BLOB, b"#!/bin/sh\n"),
    "link": (LINK, b"a.cu"),
    "dangling": (BLOB, b"now a file"),
    "new/deep/file": (BLOB, b"new"),
}


def test_a_checkout_holds_exactly_the_tree(objects: Objects, folder: Path) -> None:
    assert objects.checkout(_tree(objects, ONE), folder) == len(ONE)
    assert _held(folder) == ONE
    assert objects.checkout(_tree(objects, TWO), folder) == 6
    assert _held(folder) == TWO


def test_only_files_that_differ_are_touched(objects: Objects, folder: Path) -> None:
    one, two = _tree(objects, ONE), _tree(objects, TWO)
    objects.checkout(one, folder)
    before = _times(folder)
    assert objects.checkout(one, folder) == 0
    assert _times(folder) == before
    objects.checkout(two, folder)
    kept = {path for path, time in _times(folder).items() if before.get(path) == time}
    assert kept == {str(folder / "csrc" / "b.cu")}


def test_generated_files_stay_and_changed_ones_are_put_right(objects: Objects, folder: Path) -> None:
    one = _tree(objects, ONE)
    objects.checkout(one, folder)
    (folder / "build").mkdir()
    (folder / "build" / "a.o").write_bytes(b"object")
    (folder / "a.cu").write_bytes(b"edited by hand")
    (folder / "run.sh").chmod(0o644)
    (folder / "link").unlink()
    assert objects.checkout(one, folder) == 3
    assert _held(folder) == {**ONE, "build/a.o": (BLOB, b"object")}


def test_files_folders_and_links_take_one_anothers_place(objects: Objects, folder: Path) -> None:
    shapes: list[Files] = [
        {"x": (BLOB, b"file")},
        {"x/y": (BLOB, b"in a folder"), "z": (BLOB, b"z")},
        {"x": (LINK, b"z"), "z": (BLOB, b"z")},
        {"x/y/z": (EXECUTABLE, b"deeper")},
        {"x": (BLOB, b"file")},
    ]
    for shape in shapes:
        objects.checkout(_tree(objects, shape), folder)
        assert _held(folder) == shape


def test_a_gitlink_is_an_empty_folder_and_stays_filled(objects: Objects, folder: Path) -> None:
    tree = _tree(objects, {"sub": (GITLINK, b""), "a": (BLOB, b"a")})
    assert objects.checkout(tree, folder) == 2
    (folder / "sub" / "file").write_text("put there later")
    assert objects.checkout(tree, folder) == 0
    assert (folder / "sub" / "file").is_file()


KILLED = """
import os, signal, sys
from pathlib import Path
from builder import git
git_dir, tree, folder, left = sys.argv[1:]
left = int(left)
put = git.Objects._put
def counted(self, path, entry):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    put(self, path, entry)
git.Objects._put = counted
git.Objects(Path(git_dir)).checkout(tree, Path(folder))
"""


def _killed_after(count: int, objects: Objects, tree: str, folder: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(objects.git_dir), tree, str(folder), str(count)]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_killed_checkout_loses_no_times(objects: Objects, folder: Path) -> None:
    one = _tree(objects, ONE)
    _killed_after(4, objects, one, folder)
    before = _times(folder)
    assert len(before) == 4
    assert objects.checkout(one, folder) == len(ONE) - 4
    after = _times(folder)
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("then", [ONE, TWO, {"a.cu": (BLOB, b"third")}], ids=["back", "on", "elsewhere"])
def test_a_killed_checkout_forgets_no_file_that_must_go(objects: Objects, folder: Path, then: Files) -> None:
    objects.checkout(_tree(objects, ONE), folder)
    _killed_after(2, objects, _tree(objects, TWO), folder)
    _killed_after(0, objects, _tree(objects, {"other": (BLOB, b"1"), "csrc/more.cu": (BLOB, b"2")}), folder)
    objects.checkout(_tree(objects, then), folder)
    assert _held(folder) == then


@pytest.mark.parametrize("state", ["", "4b82", "no tree", "f" * 40, "0" * 41])
def test_a_damaged_note_of_the_last_checkout_stops_nothing(objects: Objects, folder: Path, state: str) -> None:
    one = _tree(objects, ONE)
    objects.checkout(one, folder)
    (folder.parent / "src.tree").write_text(state)
    assert objects.checkout(one, folder) == 0
    assert _held(folder) == ONE


def test_another_store_is_no_obstacle(objects: Objects, folder: Path, tmp_path: Path) -> None:
    """The store was emptied; the folder outside it was not."""
    objects.checkout(_tree(objects, ONE), folder)
    other = Objects(tmp_path / "other" / "pkg.git")
    other.checkout(_tree(other, TWO), folder)
    assert TWO.items() <= _held(folder).items()


def test_a_tree_that_is_not_here_is_said(objects: Objects, folder: Path) -> None:
    for name in ("f" * 40, "nonsense"):
        with pytest.raises(SourceError, match="no tree") as told:
            objects.checkout(name, folder)
        assert told.value.remedy


# -- against git itself -----------------------------------------------------------------------

QUIET = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
}


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, env=QUIET, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _write_tree(folder: Path) -> str:
    _git(folder, "init", "-q")
    _git(folder, "add", "--all", "--force", ".")
    return _git(folder, "write-tree")


NAMES = st.text(st.sampled_from("ab.- _é漢"), min_size=1, max_size=6).filter(
    lambda name: name.strip(".") and name != ".git"
)
MODES = st.sampled_from([BLOB, EXECUTABLE, LINK])
CONTENT = st.binary(max_size=40) | st.just(b"line\r\nline\r\n")
TREES = st.recursive(
    st.tuples(MODES, CONTENT), lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
).filter(lambda tree: isinstance(tree, dict))


def _make(place: Path, tree: object) -> None:
    if isinstance(tree, dict):
        place.mkdir(exist_ok=True)
        for name, inner in tree.items():
            _make(place / name, inner)
    elif isinstance(tree, tuple) and tree[0] == LINK:
        place.symlink_to(os.fsdecode(tree[1].replace(b"\0", b"") or b"x"))
    elif isinstance(tree, tuple):
        place.write_bytes(tree[1])
        place.chmod(0o755 if tree[0] == EXECUTABLE else 0o644)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(TREES)
def test_import_folder_equals_git_write_tree(tree: object) -> None:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "folder")
        _make(folder, tree)
        objects = Objects(Path(base, "pkg.git"))
        mine = objects.import_folder(folder)
        assert mine == _write_tree(folder)
        again = Path(base, "again")
        again.mkdir()
        objects.checkout(mine, again)
        assert objects.import_folder(again) == mine
        assert _held(again) == {name: held for name, held in _held(folder).items() if not name.startswith(".git/")}


def test_import_folder_of_awkward_things_equals_git(objects: Objects, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "empty" / "emptier").mkdir(parents=True)
    (folder / "a").mkdir()
    for name in ("a.b", "a-b", "a/x", "ab", ".gitignore", "a0"):
        (folder / name).write_text("*\n")
    (folder / "group").write_text("x")
    (folder / "group").chmod(0o654)
    (folder / "others").write_text("x")
    (folder / "others").chmod(0o611)
    (folder / "owner").write_text("x")
    (folder / "owner").chmod(0o744)
    (folder / "to-folder").symlink_to("a")
    (folder / "round").symlink_to("round")
    assert objects.import_folder(folder) == _write_tree(folder)


def test_an_empty_folder_is_the_empty_tree(objects: Objects, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    assert objects.import_folder(tmp_path / "nothing") == EMPTY_TREE
    assert objects.files(EMPTY_TREE) == {}


def test_commits_are_the_same_anywhere_and_git_reads_them(objects: Objects, tmp_path: Path) -> None:
    other = Objects(tmp_path / "other.git")
    ids = []
    for each in (objects, other):
        first = each.commit(_tree(each, ONE), "first")
        ids.append(each.commit(_tree(each, TWO), "second", first))
    assert ids[0] == ids[1]
    told = _git(objects.git_dir, "log", "--format=%s %at %ct %ae", ids[0]).splitlines()
    assert told == [f"{subject} {EPOCH} {EPOCH} builder@spark-wheels.invalid" for subject in ("second", "first")]
    assert _git(objects.git_dir, "rev-parse", f"{ids[0]}^{{tree}}") == objects.tree_of(ids[0])
    assert _git(objects.git_dir, "fsck", "--strict", "--no-dangling") == ""


def test_reading_a_tree(objects: Objects) -> None:
    tree = _tree(objects, ONE)
    assert list(objects.files(tree)) == sorted(ONE)
    found = objects.entry(tree, "csrc/b.cu")
    assert found is not None
    assert (found.mode, objects.read(found.oid)) == (BLOB, b"b")
    assert objects.entry(tree, "csrc") is None
    assert objects.entry(tree, "csrc/absent") is None
    assert objects.under(tree, "csrc") == ("b.cu", "gone.cu")
    assert objects.under(tree, "a.cu") == ()
    assert objects.subtree(tree, "csrc") in _git(objects.git_dir, "ls-tree", tree)
    with pytest.raises(SourceError, match="no folder absent"):
        objects.subtree(tree, "absent")
    assert objects.has(tree)
    assert not objects.has("f" * 40)
    assert objects.edit(tree, {"csrc/gone.cu": None}) == _tree(
        objects, {path: held for path, held in ONE.items() if path != "csrc/gone.cu"}
    )
