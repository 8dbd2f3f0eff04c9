"""How reading is spread over cores, and the memory that it is done in."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from builder.errors import InspectError
from builder.inspect import elf, fatbin, inflate, inspect_path, to_json, work
from builder.inspect.facts import Level
from builder.inspect.room import Errand, Room, errands

SIZES = (0, 1, 1000, (1 << 16) - 1, 1 << 16, 5 << 20)


def deflated(plain: bytes) -> memoryview:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return memoryview(packer.compress(plain) + packer.flush())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("exported", [True, False])
def test_inflating_gives_the_bytes(monkeypatch: pytest.MonkeyPatch, size: int, exported: bool) -> None:
    if not exported:
        monkeypatch.setattr(inflate, "_library", lambda: None)
    plain = random.Random(0).randbytes(size // 2) + b"x" * (size - size // 2)  # noqa: S311  repeatable on purpose
    found = inflate.inflate(deflated(plain), size)
    assert found == plain
    assert inflate.crc32(found) == zlib.crc32(plain)
    assert inflate.inflate(deflated(plain), size + 70_000) == plain


@pytest.mark.parametrize("size", [1000, 5 << 20])
def test_damage_and_floods_do_not_inflate(size: int) -> None:
    packed = deflated(b"x" * size)
    with pytest.raises(ValueError, match=r"."):
        inflate.inflate(packed, size - 1)
    with pytest.raises(ValueError, match=r"."):
        inflate.inflate(memoryview(b"\xff" * 64), size)


def test_libdeflate_is_exported_here() -> None:
    """Without it all is right and slow: two threads inflate no faster than one."""
    assert inflate._library() is not None


def test_shared_work_keeps_its_order_and_is_done_once() -> None:
    with work.workers() as pool:
        outer = [pool.submit(work.share, pool, lambda n: (n, threading.get_ident()), range(200)) for _ in range(8)]
        for task in outer:
            assert [n for n, _ in task.result(timeout=60)] == list(range(200))


def test_a_helper_takes_part_and_an_error_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "cores", lambda: 2)
    both, done = threading.Barrier(2, timeout=60), []

    def act(number: int) -> int:
        if number < 2:
            both.wait()  # two threads are at it
        done.append(number)
        if number == 2:
            raise InspectError("damaged")
        return number

    with ThreadPoolExecutor(2) as pool, pytest.raises(InspectError, match="damaged"):
        work.share(pool, act, range(1000))
    assert len(done) < 1000


def test_a_helper_that_comes_too_late_keeps_nothing() -> None:
    """Else a wheel's inflated binaries would stay until the last of them is read."""
    released = threading.Event()

    class Item:
        def __del__(self) -> None:
            released.set()

    with ThreadPoolExecutor(1) as pool:
        busy = threading.Event()
        pool.submit(busy.wait, 60)
        assert work.share(pool, lambda _: 1, [Item()]) == [1]
        assert released.wait(5)
        busy.set()


def test_a_room_is_used_again_by_its_thread_alone(samples: Path) -> None:
    data = memoryview((samples / "launch_zstd.so").read_bytes())
    section = next(elf.fatbin_sections(elf.parse(data)))
    packed = [entry for entry in fatbin.entries(section) if entry.compression == "zstd"]
    assert len(packed) > 1
    room = fatbin.Unpacker()
    alone = [bytes(fatbin.unpack(entry)) for entry in packed]
    assert [bytes(fatbin.unpack(entry, room=room)) for entry in packed] == alone
    mine = fatbin.unpack(packed[0], room=room)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fatbin.unpack, packed[1], room=room).result()
    assert mine == alone[0]


@pytest.mark.parametrize("collects", [True, False])
def test_the_interpreter_is_left_as_it_was(collects: bool) -> None:
    interval = sys.getswitchinterval()
    (gc.enable if collects else gc.disable)()
    try:
        with suppress(ZeroDivisionError), work.workers():
            assert not gc.isenabled()
            assert sys.getswitchinterval() < interval
            raise ZeroDivisionError
        assert (gc.isenabled(), sys.getswitchinterval()) == (collects, interval)
    finally:
        gc.enable()


def test_a_room_grows_and_is_used_again() -> None:
    room, size = Room(), 9 << 20
    first = room.of(size)
    first[0] = 7
    assert (len(room.of(10)), room.of(10)[0]) == (10, 7)
    assert len(room.of(3 * size)) == 3 * size
    plain = random.Random(1).randbytes(1 << 17)  # noqa: S311  repeatable on purpose
    found = inflate.inflate(deflated(plain), len(plain), room)
    assert found == plain == room.of(len(plain))


def test_errands_go_where_there_is_room_for_them() -> None:
    """The first makes the room, and what fits there comes before what was put between."""
    ran, big = list[tuple[str, bool]](), 9 << 20

    def errand(name: str, size: int) -> Errand[str]:
        def run(room: Room) -> str:
            ran.append((name, room.size >= size))
            room.of(size)
            return name

        return Errand(size, run)

    todo = [errand("middle", big), errand("larger", 3 * big), errand("small", 1 << 10), errand("like", big)]
    with ThreadPoolExecutor(1) as pool, errands(pool, todo, 1) as results:
        assert results() == ["middle", "small", "like", "larger"]
    assert ran == [("middle", False), ("small", True), ("like", True), ("larger", False)]


@pytest.mark.parametrize(("threads", "one_for_all"), [(2, True), (8, False)])
def test_what_is_large_waits_for_the_largest_room_where_few_cores_would_idle(threads: int, one_for_all: bool) -> None:
    """The largest is under way until the other threads have nothing left, or one has taken the second largest."""
    by, other = dict[str, int](), threading.Event()
    sizes = {"largest": 40 << 20, "second": 36 << 20, "some": 10 << 20, "small": 1 << 10}

    def errand(name: str) -> Errand[str]:
        def run(room: Room) -> str:
            room.of(sizes[name])
            by[name] = threading.get_ident()
            if name == "largest":
                assert other.wait(30)
            elif name == ("small" if one_for_all else "second"):
                other.set()
            return name

        return Errand(sizes[name], run)

    with ThreadPoolExecutor(2) as pool, errands(pool, [errand(name) for name in sizes], threads) as results:
        assert sorted(results()) == sorted(sizes)
    assert (by["second"] == by["largest"]) == one_for_all
    assert by["small"] != by["largest"]


def test_what_is_beside_is_done_once_and_by_whoever_is_free() -> None:
    go, busy, who = threading.Event(), threading.Event(), threading.get_ident

    def act() -> int:
        assert go.wait(30)
        return who()

    def other() -> int:
        go.set()
        return who()

    with ThreadPoolExecutor(1) as pool:
        assert len(set(work.beside(pool, act, other))) == 2
        pool.submit(busy.wait, 30)
        assert set(work.beside(pool, who, who)) == {who()}
        busy.set()

    def bad() -> None:
        raise InspectError("damaged")

    with ThreadPoolExecutor(1) as pool, pytest.raises(InspectError, match="damaged"):
        work.beside(pool, bad, go.clear)


def test_errands_end_with_an_error_or_with_whoever_waits() -> None:
    done, begun, go = list[int](), threading.Event(), threading.Event()

    def errand(number: int) -> Errand[None]:
        def run(_: Room) -> None:
            done.append(number)
            begun.set()
            go.wait(60)
            if number == 0:
                raise InspectError("damaged")

        return Errand(1, run)

    with ThreadPoolExecutor(1) as pool:
        go.set()
        todo = [errand(number) for number in range(9)]
        with errands(pool, todo, 1) as results, pytest.raises(InspectError, match="damaged"):
            results()
        assert done == [0]
        go.clear()
        begun.clear()
        with suppress(ZeroDivisionError), errands(pool, [errand(number) for number in range(1, 9)], 1):
            begun.wait(60)
            raise ZeroDivisionError
        go.set()
    assert done == [0, 1]


def test_an_error_while_another_thread_chooses_is_the_one_that_is_told() -> None:
    """It throws away what is left, and the other one must not choose of that."""
    begun, chooses = threading.Event(), threading.Event()

    class Size(int):
        def __le__(self, other: int) -> bool:
            chooses.set()
            time.sleep(0.2)
            return True

    def first(_: Room) -> None:
        begun.wait(30)

    def bad(_: Room) -> None:
        begun.set()
        chooses.wait(30)
        raise InspectError("damaged")

    todo = [Errand(0, first), Errand(0, bad), Errand(Size(), lambda _: None)]
    with (
        ThreadPoolExecutor(2) as pool,
        errands(pool, todo, 2) as results,
        pytest.raises(InspectError, match="damaged"),
    ):
        results()


@pytest.mark.parametrize("level", ["arch", "sass"])
def test_one_core_says_the_same_as_many(
    make_wheel: Callable[..., Path], samples: Path, monkeypatch: pytest.MonkeyPatch, level: Level
) -> None:
    names = ("launch_zstd.so", "launch_lz4.so", "guard_sm_121a.o", "scale.fatbin")
    path = make_wheel({f"demo/{name}": (samples / name).read_bytes() for name in names})
    many = json.dumps(to_json([inspect_path(path, level=level)], details=True))
    monkeypatch.setattr(work, "cores", lambda: 1)
    assert json.dumps(to_json([inspect_path(path, level=level)], details=True)) == many


@pytest.mark.parametrize("files", [{}, {"read.me": b"text"}, {"empty.so": b""}])
def test_a_folder_with_nothing_in_it(tmp_path: Path, files: dict[str, bytes]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(InspectError, match=f"nothing to inspect in this folder: {len(files)} file") as caught:
        inspect_path(folder)
    assert "name another folder, or a wheel" in str(caught.value)


def test_a_folder_of_wheels_is_told_to_name_them(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel({"demo/a.py": b""})
    with pytest.raises(InspectError, match="name the wheels in it") as caught:
        inspect_path(path.parent)
    assert str(path) in str(caught.value)


def test_readers_are_not_imported_before_there_is_a_file() -> None:
    code = "import sys, builder.inspect; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
