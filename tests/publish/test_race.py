"""Many publishers at once, some of them killed, with a reader that never meets a broken link."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urldefrag

import obstore
import pytest

from builder.publish import publish
from builder.publish.s3 import ObjectShelf
from tests.publish.buckets import PLACE
from tests.publish.conftest import MakeWheel
from tests.publish.reader import links_of, listed, listed_json

ROOT = Path(__file__).parents[2]


@dataclass
class Reader(threading.Thread):
    """Reads the whole index again and again; keeps the first thing that was wrong."""

    look: Callable[[], set[str]]
    reads: int = 0
    wrong: list[BaseException] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    offered: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        while not self.done.is_set() and not self.wrong:
            try:
                now = self.look()
                assert now >= self.offered, f"lost {self.offered - now}"
                self.offered = now
            except BaseException as error:  # noqa: BLE001  a thread hands it to the test
                self.wrong.append(error)
            self.reads += 1


def race(index: Path | str, shares: list[list[Path]], kills: int) -> int:
    """One process a share, published one wheel at a time; returns how many were killed, then restarted."""
    chance, killed = random.Random(3), 0  # noqa: S311  not for secrets
    running = [start(index, share) for share in shares]
    while any(process.poll() is None for process in running):
        time.sleep(chance.uniform(0.02, 0.2))
        n = chance.randrange(len(running))
        if killed < kills and running[n].poll() is None:
            running[n].kill()
            killed += running[n].wait() == -9
            running[n] = start(index, shares[n])
    assert [process.returncode for process in running] == [0] * len(running)
    return killed


def start(index: Path | str, wheels: list[Path]) -> subprocess.Popen[bytes]:
    argv: list[str | Path] = [sys.executable, "-m", "tests.publish.publisher", "--each", index, *wheels]
    return subprocess.Popen(argv, cwd=ROOT)


def look_at(index: Path) -> set[str]:
    """All that both kinds of page offer in a folder, every byte checked on the way."""
    now = set(listed(index))
    listed_json(index)
    return now


@dataclass
class Bucket:
    """All that the HTML pages offer in a bucket; each file is asked for once, for its address never changes."""

    shelf: ObjectShelf = field(default_factory=lambda: ObjectShelf.open(PLACE))
    known: set[str] = field(default_factory=set)

    def __call__(self) -> set[str]:
        names: set[str] = set()
        for project, _, _ in links_of(self._page("simple/index.html")):
            for href, _, name in links_of(self._page(f"simple/{project}index.html")):
                key = unquote(urldefrag(href)[0]).removeprefix("../../")
                if key not in self.known:
                    for each in (key, f"{key}.metadata"):
                        obstore.head(self.shelf.store, each)
                self.known.add(key)
                names.add(name)
        return names

    def _page(self, key: str) -> bytes:
        kept = self.shelf.read(key)
        return kept.data if kept else b""


def check(
    index: Path | str, look: Callable[[], set[str]], make_wheel: MakeWheel, *, publishers: int, files: int, kills: int
) -> None:
    shares = [
        [make_wheel(f"p{(n + who) % 5}", f"{n}.{who}").wheel.path for n in range(files)] for who in range(publishers)
    ]
    reader = Reader(look)
    reader.start()
    killed = race(index, shares, kills)
    reader.done.set()
    reader.join()
    assert reader.wrong == []
    assert reader.reads > 5
    assert killed >= kills // 2
    assert look() == {path.name for share in shares for path in share}


def test_four_publishers_with_kills(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    check(index, lambda: look_at(index), make_wheel, publishers=4, files=6, kills=3)


@pytest.mark.slow
def test_eight_publishers_of_fifty_files_with_kills(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    check(index, lambda: look_at(index), make_wheel, publishers=8, files=50, kills=30)


@pytest.mark.slow
def test_eight_publishers_of_fifty_files_with_kills_in_a_bucket(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    check(PLACE, Bucket(), make_wheel, publishers=8, files=50, kills=30)


def test_of_two_with_other_bytes_one_wins(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    paths = [make_wheel(version="1.0", payload=bytes([n]) * 1000).wheel.path for n in range(4)]
    racers = [start(index, [path]) for path in paths]
    codes = sorted(process.wait() for process in racers)
    assert codes == [0, 13, 13, 13]
    assert len(listed(index)) == len(listed_json(index)) == 1
    publish([make_wheel(version="2.0")], index)
    assert len(listed(index)) == 2
