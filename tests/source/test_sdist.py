"""An sdist becomes a tree that is compared with its pins, once."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from builder.context import Context
from builder.errors import ArchiveError, DigestError, FetchError, SourceError, StoreError
from builder.git import Objects
from builder.model import Package
from builder.source import fetch_source
from builder.store import Store


class Shelf(Protocol):
    folder: Path

    def sdist(self, files: dict[str, bytes], *, top: str = ...) -> Package: ...


def leftovers(store: Store) -> list[Path]:
    return [*(store.root / "trees").glob("*"), *(store.root / "records").rglob("*.json")]


def tree_by_git(folder: Path, files: dict[str, bytes]) -> str:
    """The tree id that the git program itself gives these files."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if name.endswith(".py") else 0o644)
    git = ["git", "-c", "core.fileMode=true", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A", "-f"], check=True)
    return subprocess.run([*git, "write-tree"], check=True, capture_output=True, text=True).stdout.strip()


def test_the_tree_is_upstreams_without_what_only_sdists_have(
    shelf: Shelf, good: dict[str, bytes], upstream: dict[str, bytes], context: Context, tmp_path: Path
) -> None:
    tree = tree_by_git(tmp_path / "upstream", upstream)
    source = fetch_source(replace(shelf.sdist(good), tree=tree), context)
    assert source.tree == tree
    assert set(Objects(source.git_dir).files(source.tree)) == set(upstream)
    assert list((context.store.root / "trees").iterdir()) == []


def test_the_commit_is_the_same_on_any_machine(
    shelf: Shelf, good: dict[str, bytes], context: Context, tmp_path: Path
) -> None:
    package = shelf.sdist(good)
    other = replace(context, store=Store(tmp_path / "other"))
    commits = {fetch_source(package, place, accept=True).commit for place in (context, other)}
    assert len(commits) == 1
    log = subprocess.run(
        ["git", f"--git-dir={context.store.git_dir(package.name)}", "log", "--format=%ct %B", commits.pop()],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert log.startswith("1577836800 flashinfer-python 0.6.8")
    assert f"Upstream-Commit: {package.commit}" in log


def test_a_second_call_reads_a_record_and_nothing_else(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = shelf.sdist(good)
    first = fetch_source(package, context, accept=True)
    shutil.rmtree(shelf.folder)
    shutil.rmtree(context.store.root / "blobs")
    start = time.perf_counter()
    assert fetch_source(package, context, accept=True) == first
    assert time.perf_counter() - start < 0.01


def test_a_package_with_a_source_has_its_sources_tree(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = shelf.sdist(good)
    cache = replace(package, name="flashinfer-jit-cache", source="flashinfer-python")
    assert fetch_source(cache, context, accept=True) == fetch_source(package, context, accept=True)


def test_no_pin_is_an_error_that_prints_the_tree(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = shelf.sdist(good)
    tree = fetch_source(package, context, accept=True).tree
    for _ in range(2):
        with pytest.raises(SourceError, match="pins no tree") as caught:
            fetch_source(package, context)
        assert f'tree = "{tree}"' in caught.value.remedy


def test_an_altered_bundled_cutlass_stops_the_build(
    shelf: Shelf, good: dict[str, bytes], header: str, context: Context
) -> None:
    altered = good | {"3rdparty/cutlass/include/cutlass/version.h": header.format(4, 3, 0).encode()}
    with pytest.raises(SourceError, match=r"bundles 3rdparty/cutlass 4\.3\.0, not 4\.4\.2"):
        fetch_source(shelf.sdist(altered), context, accept=True)
    assert leftovers(context.store) == []


def test_a_bundled_library_that_is_gone_stops_the_build(
    shelf: Shelf, upstream: dict[str, bytes], context: Context
) -> None:
    del upstream["3rdparty/cutlass/include/cutlass/version.h"]
    with pytest.raises(SourceError, match="no version found"):
        fetch_source(shelf.sdist(upstream), context, accept=True)


def test_a_pin_of_an_unknown_library_is_no_silent_pass(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = replace(shelf.sdist(good), vendored=(("3rdparty/mystery", "1.0"),))
    with pytest.raises(SourceError, match="no rule says how 3rdparty/mystery"):
        fetch_source(package, context, accept=True)


def test_an_sdist_of_another_commit_is_refused(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    other = good | {"flashinfer/_build_meta.py": b'__git_version__ = "2bb3e9e67aa5f7b05b7f867cac780bba74bf3920"\n'}
    with pytest.raises(SourceError, match="made from another commit") as caught:
        fetch_source(shelf.sdist(other), context, accept=True)
    assert "2bb3e9e6" in caught.value.expected


def test_another_tree_names_the_paths_once_a_good_one_was_here(
    shelf: Shelf, good: dict[str, bytes], context: Context
) -> None:
    tree = fetch_source(shelf.sdist(good), context, accept=True).tree
    altered = good | {"csrc/a.cu": b"evil\n", "csrc/new.cu": b"\n"}
    del altered["README.md"]
    with pytest.raises(SourceError, match="another tree than the pinned one") as caught:
        fetch_source(replace(shelf.sdist(altered), tree=tree), context)
    assert caught.value.expected.endswith("; README.md removed, csrc/a.cu changed, csrc/new.cu added")


def test_another_tree_without_a_good_one_shows_both_ids(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    with pytest.raises(SourceError) as caught:
        fetch_source(replace(shelf.sdist(good), tree="1" * 40), context, accept=True)
    assert f"tree {'1' * 40}, found " in caught.value.expected


def test_a_replaced_sdist_is_refused_by_digest(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = shelf.sdist(good)
    shelf.sdist(good | {"README.md": b"other\n"})
    with pytest.raises(DigestError):
        fetch_source(package, context, accept=True)


def test_two_top_folders_are_no_sdist(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    with pytest.raises(SourceError, match="is no sdist"):
        fetch_source(shelf.sdist(good, top=""), context, accept=True)


def test_a_hostile_sdist_leaves_nothing(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    with pytest.raises(ArchiveError, match="climbs out"):
        fetch_source(shelf.sdist(good | {"../../evil": b"x"}), context, accept=True)
    assert leftovers(context.store) == []


def test_an_absent_sdist_names_where_it_was_sought(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = shelf.sdist(good)
    (shelf.folder / package.sdist).unlink()
    with pytest.raises(FetchError) as caught:
        fetch_source(package, context, accept=True)
    assert str(shelf.folder) in caught.value.where


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = shutil.which("mount") is not None and os.geteuid() == 0
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    if not mounted or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no permission to mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("noise", "room"),
    [(300_000, 100_000), (300_000, 400_000), (150_000, 400_000)],
    ids=["download", "unpack", "objects"],
)
def test_a_full_disk_is_one_clear_error(
    shelf: Shelf, good: dict[str, bytes], context: Context, small_disk: Path, noise: int, room: int
) -> None:
    package = shelf.sdist(good | {"csrc/noise.bin": os.urandom(noise)})
    (small_disk / "ballast").write_bytes(bytes(512 * 1024 - room))
    full = replace(context, store=Store(small_disk / "store"))
    with pytest.raises(StoreError, match="disk is full"):
        fetch_source(package, full, accept=True)
    (small_disk / "ballast").unlink()
    assert [*(full.store.root / "blobs").glob(".part-*"), *leftovers(full.store)] == []


CHILD = """
import json, sys, time
from pathlib import Path
from builder import archive
from builder.context import Context
from builder.model import Package
from builder.report import Report
from builder.source import fetch_source
from builder.store import Store
admit = archive._admit_tar
def slow(member, ledger):
    time.sleep(0.3 if ledger.members > 1 else 0)
    return admit(member, ledger)
archive._admit_tar = slow
fields = json.loads(sys.argv[2])
fields["vendored"] = tuple(map(tuple, fields["vendored"]))
root = Path(sys.argv[1])
fetch_source(Package(**fields), Context(Store(root), root / "logs", report=Report(quiet=True)), accept=True)
"""


def test_kill_9_during_unpacking_then_a_clean_run(shelf: Shelf, good: dict[str, bytes], context: Context) -> None:
    package = shelf.sdist(good)
    command = [sys.executable, "-c", CHILD, str(context.store.root), json.dumps(dataclasses.asdict(package))]
    victim = subprocess.Popen(command)
    trees = context.store.root / "trees"
    end = time.monotonic() + 15
    while not list(trees.glob(".part-*/*/*")) and time.monotonic() < end:
        time.sleep(0.02)
    assert victim.poll() is None
    victim.send_signal(signal.SIGKILL)
    victim.wait(timeout=10)
    assert [path.name[:6] for path in trees.iterdir()] == [".part-"]
    assert fetch_source(package, context, accept=True).tree
    assert context.store.sweep(older_than=0) == 1
    assert list(trees.iterdir()) == []
