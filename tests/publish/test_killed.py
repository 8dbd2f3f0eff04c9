"""A publisher that ends at any moment leaves an index whose every link exists, and a rerun finishes the work."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builder.errors import PublishError
from builder.model import VerifiedWheel
from builder.publish import gc, publish, refresh, rollback, unyank
from builder.publish.shelf import FolderShelf, Item, Kept
from tests.publish.conftest import MakeWheel
from tests.publish.reader import links_of, listed, listed_json
from tests.publish.wheels import X86_64, verified

ROOT = Path(__file__).parents[2]


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


class Mortal:
    """A folder whose publisher dies just before its n-th effect."""

    def __init__(self, root: Path, left: int) -> None:
        self._shelf, self._left = FolderShelf(root), left

    def read(self, key: str) -> Kept | None:
        return self._shelf.read(key)

    def has(self, key: str, size: int) -> bool:
        return self._shelf.has(key, size)

    def write(self, key: str, data: bytes, *, over: Kept | None) -> bool:
        self._live()
        return self._shelf.write(key, data, over=over)

    def put(self, key: str, data: bytes) -> None:
        self._live()
        self._shelf.put(key, data)

    def put_file(self, key: str, path: Path, sha256: str) -> None:
        self._live()
        self._shelf.put_file(key, path, sha256)

    def items(self, prefix: str) -> Iterator[Item]:
        return self._shelf.items(prefix)

    def delete(self, item: Item) -> bool:
        self._live()
        return self._shelf.delete(item)

    def _live(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


EFFECTS = 3 * 2 + 2 * 2 + 2  # three wheels with metadata, the pages of two projects, the list


@pytest.fixture
def wheels(make_wheel: MakeWheel) -> list[VerifiedWheel]:
    return [make_wheel("steady", "2.0"), make_wheel("fresh", "2.0"), make_wheel("fresh", "2.0", X86_64)]


@pytest.mark.parametrize("effects", range(EFFECTS + 1))
def test_death_before_every_single_effect(
    tmp_path: Path, make_wheel: MakeWheel, wheels: list[VerifiedWheel], effects: int
) -> None:
    index, first = tmp_path / "index", make_wheel("steady", "1.0")
    publish([first], index)
    if effects == EFFECTS:
        publish(wheels, Mortal(index, effects))
    else:
        with pytest.raises(Killed):
            publish(wheels, Mortal(index, effects))
    offered = listed(index)
    assert offered.items() <= listed_json(index).items()
    assert offered[first.wheel.path.name] == first.wheel.sha256
    publish(wheels, index)
    assert listed(index) == listed_json(index) == {w.wheel.path.name: w.wheel.sha256 for w in [first, *wheels]}


@pytest.mark.slow
def test_kill_9_at_random_moments(tmp_path: Path, make_wheel: MakeWheel) -> None:
    first, chance = make_wheel("steady", "1.0"), random.Random(7)  # noqa: S311  not for secrets
    payload = bytes(range(256)) * 2048
    more = [make_wheel(name, f"2.{n}", payload=payload).wheel.path for name in ("a", "steady") for n in range(8)]
    killed = 0
    for _ in range(6):
        index = tmp_path / "index"
        shutil.rmtree(index, ignore_errors=True)
        publish([first], index)
        killed += _kill_soon(index, more, chance.uniform(0, 0.08))
        assert first.wheel.path.name in listed(index)
        assert listed(index).items() <= listed_json(index).items()
    assert killed >= 2
    publish([verified(path) for path in more], index)
    assert len(listed(index)) == len(listed_json(index)) == 17


def _kill_soon(index: Path, wheels: list[Path], seconds: float) -> bool:
    """Start a publisher, wait until its first wheel is in, then that long, and kill it."""
    process = subprocess.Popen([sys.executable, "-m", "tests.publish.publisher", index, *wheels], cwd=ROOT)
    while process.poll() is None and len(list(index.rglob("*.whl"))) < 2:
        time.sleep(0.001)
    time.sleep(seconds)
    process.kill()
    return process.wait() < 0


@pytest.mark.parametrize("effects", range(8))
def test_death_in_the_middle_of_gc(tmp_path: Path, make_wheel: MakeWheel, effects: int) -> None:
    index, far = tmp_path / "index", datetime.now(UTC) + timedelta(days=9)
    for version in ("1.0", "2.0"):
        publish([make_wheel(name, version) for name in ("a", "b")], index)
    gc(index, keep=2)
    (index / "files/orphan").write_bytes(b"left by a killed publisher")
    with suppress(Killed):
        gc(Mortal(index, effects), keep=1, grace=timedelta(0), now=far)
    assert listed_json(index).items() <= listed(index).items()
    gc(index, keep=1, grace=timedelta(0), now=far)
    assert set(listed(index)) == set(listed_json(index))
    assert len(list(index.rglob("*.whl"))) == len(listed(index)) == 2


def test_what_gc_took_just_before_its_page_is_put_back(tmp_path: Path, wheels: list[VerifiedWheel]) -> None:
    class Collected(FolderShelf):
        """A folder whose gc takes every file at the moment when the first page is written."""

        __slots__ = ()

        def write(self, key: str, data: bytes, *, over: Kept | None) -> bool:
            if not (self.root / "simple").exists():
                shutil.rmtree(self.root / "files")
            return super().write(key, data, over=over)

    publish(wheels, Collected(tmp_path / "index"))
    assert len(listed(tmp_path / "index")) == len(wheels)


@pytest.mark.parametrize("effects", range(4))
def test_a_killed_rollback_run_again_takes_back_one_release(
    tmp_path: Path, make_wheel: MakeWheel, effects: int
) -> None:
    index = tmp_path / "index"
    for version in ("1.0", "2.0", "3.0"):
        publish([make_wheel(name, version) for name in ("a", "b")], index)
    with pytest.raises(Killed):
        rollback(Mortal(index, effects))
    withdrawn = {make_wheel(name, "3.0").wheel.path.name for name in ("a", "b")}
    assert set(rollback(index).files) <= withdrawn
    for page in index.glob("simple/*/index.html"):
        marks = {name for _, found, name in links_of(page.read_bytes()) if "data-yanked" in found}
        assert marks <= withdrawn
        assert len(marks) == (page.parent.name != "simple")
    assert refresh(index).pages == ()


def test_a_publish_killed_between_projects_and_run_again_is_one_release(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index, noon = tmp_path / "index", datetime(2026, 11, 30, 12, tzinfo=UTC)
    publish([make_wheel(name, "1.0") for name in ("a", "b")], index, now=noon - timedelta(days=1))
    newest = [make_wheel(name, "2.0") for name in ("a", "b")]
    with pytest.raises(Killed):
        publish(newest, Mortal(index, 4 + 2), now=noon)  # files and the pages of one project
    assert len(listed(index)) == 3
    publish(newest, index, now=noon + timedelta(hours=1))
    both = tuple(wheel.wheel.path.name for wheel in newest)
    assert rollback(index).files == both
    unyank(index, both)
    assert rollback(index, to=noon + timedelta(minutes=30)).files == both
    with pytest.raises(PublishError, match="nothing to roll back"):
        rollback(index, to=noon + timedelta(minutes=30))
