from __future__ import annotations

import os
from pathlib import Path

import pytest

from builder.compile.collected import keep_collected
from builder.git import EMPTY_TREE, Entry, Objects

FILES = {"p/a.py": b"a", "p/b.py": b"b", "p/run.sh": b"#!"}
LIB = "build/lib.linux-aarch64-cpython-311"


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path / "p.git")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout in which setuptools has collected the files, one compiled and one generated."""
    source = tmp_path / "src" / "p"
    for name, data in {**FILES, "p/_C.abi3.so": b"so", "p/_version.py": b"1"}.items():
        path = source / LIB / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (source / LIB / "p/run.sh").chmod(0o755)
    (source / "build/bdist.linux-aarch64").mkdir()
    (source / "p.egg-info").mkdir()
    return source


def tree(objects: Objects, changes: dict[str, bytes | None]) -> dict[str, Entry]:
    data = {name: text for name, text in {**FILES, **changes}.items() if text is not None}
    modes = {name: 0o100755 if name.endswith(".sh") else 0o100644 for name in data}
    entries = {name: Entry(modes[name], objects.write(text)) for name, text in data.items()}
    return objects.files(objects.edit(EMPTY_TREE, entries))


def left(source: Path) -> set[str]:
    return {str(path.relative_to(source / LIB)) for path in (source / LIB).rglob("*") if path.is_file()}


def test_only_what_is_the_trees_own_stays(objects: Objects, source: Path) -> None:
    keep_collected(source, objects, files := tree(objects, {}), "key")
    assert left(source) == set()  # collected under nobody knows what
    for name, data in FILES.items():
        (source / LIB / name).parent.mkdir(parents=True, exist_ok=True)
        (source / LIB / name).write_bytes(data)
    (source / LIB / "p/run.sh").chmod(0o755)
    (source / LIB / "p/_C.abi3.so").write_bytes(b"so")
    os.utime(source / LIB / "p/a.py", (1, 1))
    keep_collected(source, objects, files, "key")
    assert left(source) == FILES.keys()
    assert (source / LIB / "p/a.py").stat().st_mtime > 1e9  # newer than the checkout's, so nobody copies it again
    assert not list(source.glob("build/bdist*")) + list(source.glob("*.egg-info"))


def test_content_counts_and_not_the_time(objects: Objects, source: Path) -> None:
    """The new file may be the older one: setuptools would keep what it has."""
    keep_collected(source, objects, tree(objects, {}), "key")
    for name in ("p/a.py", "p/b.py"):
        (source / LIB / name).parent.mkdir(parents=True, exist_ok=True)
        (source / LIB / name).write_bytes(FILES[name])
        os.utime(source / LIB / name, (4e9, 4e9))
    (source / LIB / "p/run.sh").write_bytes(FILES["p/run.sh"])  # and not executable, as the tree has it
    keep_collected(source, objects, tree(objects, {"p/a.py": b"A"}), "key")
    assert left(source) == {"p/b.py"}


@pytest.mark.parametrize(("changes", "key"), [({"p/b.py": None}, "key"), ({"p/new.py": b""}, "key"), ({}, "other")])
def test_other_files_or_rules_collect_anew(
    objects: Objects, source: Path, changes: dict[str, bytes | None], key: str
) -> None:
    """Which files go into a wheel is upstream's to say: where that may be another answer, nothing is taken over."""
    keep_collected(source, objects, tree(objects, {}), "key")
    (source / LIB / "p").mkdir(parents=True)
    (source / LIB / "p/a.py").write_bytes(FILES["p/a.py"])
    keep_collected(source, objects, tree(objects, changes), key)
    assert left(source) == set()
