"""Files of 20 MB, and texts of 4 MB, made to fill memory or time: refused, or read in seconds."""

from __future__ import annotations

import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard

from builder.errors import InspectError
from builder.inspect import elf, inspect_path, ptx, zips
from builder.inspect.objects import Asked, inspect_object

SIZE, TEXT = 20_000_000, 4_000_000
SLOWEST = 30.0
"""Processor seconds: a machine as busy as ours needs a third of it for the slowest."""

Section = tuple[int, bytes, int]
"""Type, bytes, and the number of the section that it refers to."""


@contextmanager
def in_time() -> Iterator[None]:
    start = time.thread_time()
    yield
    assert time.thread_time() - start < SLOWEST


def elf_file(*sections: Section, machine: int = 62, names: bytes = b"\0", name: int = 0, repeat: int = 1) -> bytes:
    """An ELF file of these sections, the last one `repeat` times, all of them named by the string at `name`."""
    bodies, headers = bytearray(64), [b"\0" * 64]
    for kind, body, link in (*sections, (3, names, 0)):
        headers.append(struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, len(bodies), len(body), link, 0, 1, 0))
        bodies += body
    headers[-2:-1] = headers[-2:-1] * repeat
    count = len(headers)
    struct.pack_into("<QQ", headers_0 := bytearray(64), 32, count, 0)
    struct.pack_into("<I", headers_0, 40, count - 1)
    header = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, len(bodies), 0, 64, 0, 0, 64, 0, 0xFFFF)
    bodies[:64] = b"\x7fELF\2\1\1" + b"\0" * 9 + header
    return bytes(bodies) + bytes(headers_0) + b"".join(headers[1:])


def read(name: str, data: bytes) -> None:
    list(inspect_object(name, memoryview(data), Asked("all", ("12.1",))))


def test_sections_that_share_a_name_of_megabytes() -> None:
    data = elf_file((1, b"", 0), names=b"\0" + b"x" * 1_000_000 + b"\0", name=1, repeat=SIZE // 64)
    with in_time():
        read("names.so", data)


def test_fatbin_sections_that_overlap() -> None:
    body = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0) * 50_000
    data = elf_file((1, body, 0), names=b"\0.nv_fatbin\0", name=1, repeat=10_000)
    with in_time(), pytest.raises(InspectError, match="its fatbin sections overlap"):
        read("overlap.so", data)


def test_needed_libraries_that_share_a_name_of_megabytes() -> None:
    strings = b"\0" + b"x" * (SIZE // 2) + b"\0"
    needed = b"".join(struct.pack("<QQ", 1, 1 + i) for i in range(SIZE // 32))
    data = elf_file((6, needed, 2), (3, strings, 0))
    with in_time(), pytest.raises(InspectError, match="overlap without reason"):
        read("needed.so", data)


def test_versions_that_share_a_name_of_megabytes() -> None:
    strings = b"\0" + b"x" * (SIZE // 2) + b"\0"
    count = 0x7FFF
    needs = struct.pack("<HHIII", 1, count, 1, 16, 0)
    needs += b"".join(struct.pack("<IHHII", 0, 0, i, 1 + i, 16) for i in range(count))
    data = elf_file((0x6FFFFFFE, needs, 2), (3, strings, 0), (11, b"\0" * 24, 2))
    with in_time(), pytest.raises(InspectError, match="overlap without reason"):
        read("versions.so", data)


def test_kernels_of_a_cubin_with_very_many_sections() -> None:
    symbol = struct.pack("<IBBHQQ", 0, 0x12, 0x10, 0xFFFF, 0, 0)
    count = SIZE // 2 // len(symbol)
    data = elf_file((2, symbol * count, 2), (3, b"\0", 0), (0, b"", 0), machine=elf.EM_CUDA, repeat=SIZE // 2 // 64)
    with in_time():
        elf.code_sections(elf.parse(memoryview(data)))


HEAD = b".version 8.0\n.target sm_90\n.address_size 64\n"
TEXTS = {
    "empty lines": b".visible .entry k(){\n trap;\n%s add;\n ret;\n}",
    "branches": b".visible .entry k(){\n trap;\n%s :\n ret;\n}",
    "braces": b".visible .entry k(){\n trap;\n%s :\n ret;\n}",
    "calls": b".func f(){ ret; }\n.visible .entry k(){\n%s ret;\n}",
    "functions": b"%s",
    "converts": b"// e4m3x\n.visible .entry k(){\n%s ret;\n}",
    "words": b"// e4m3x trap;\n.visible .entry k(){\n%s ret;\n}",
    "small kernels": b"%s",
}
FILLERS = {
    "empty lines": b"\n",
    "branches": b"bra\n",
    "braces": b"{bra ",
    "calls": b"call(",
    "functions": b".func (",
    "converts": b"cvt.",
    "words": b"trap cvt. mma call ",
    "small kernels": b".entry k(){" + b"\n" * 4000 + b"}",
}


@pytest.mark.parametrize("kind", list(TEXTS))
def test_ptx_of_nothing_but_beginnings(kind: str) -> None:
    text = HEAD + TEXTS[kind].replace(b"%s", FILLERS[kind] * (TEXT // len(FILLERS[kind])))
    with in_time():
        list(ptx.scan(text))


def test_kernels_that_all_call_very_many_functions() -> None:
    functions = b"".join(b".func f%d(){ call f%d; ret; }\n" % (i, i + 1) for i in range(4_000))
    kernels = b"".join(b".entry k%d(){ call f0; ret; }\n" % i for i in range(4_000))
    with in_time(), pytest.raises(InspectError, match="reach more than"):
        list(ptx.scan(HEAD + functions + kernels))


def test_very_many_images_that_each_unpack_to_much(tmp_path: Path) -> None:
    payload = zstandard.compress(HEAD + b" " * 60_000)
    padded = payload + b"\0" * (-len(payload) % 8)
    entry = struct.pack("<HHIQI", 1, 0x101, 64, len(padded), len(payload)) + struct.pack("<IHHI", 0, 0, 8, 90)
    entry += b"\0" * 8 + struct.pack("<QQQ", 0x8000, 0, len(HEAD) + 60_000) + padded
    body = entry * (SIZE // len(entry))
    path = tmp_path / "flood.fatbin"
    path.write_bytes(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body)
    with in_time(), pytest.raises(InspectError, match=r"it claims to unpack from \d+ B in \d+ images"):
        inspect_path(path)


def test_members_that_together_unpack_to_more_than_a_wheel_holds(make_wheel: Callable[..., Path]) -> None:
    """Members that lie on one another: each is sound, and all together are a thousand times the file."""
    path = make_wheel({"demo/a.bin": b"\0" * 1_000_000})
    data = path.read_bytes()
    start, end = data.find(b"PK\1\2"), data.rfind(b"PK\5\6")
    length = 46 + sum(struct.unpack_from("<HHH", data, start + 28))
    count = 60_000
    directory = data[start : start + length] * count
    tail = bytearray(data[end : end + 22])
    struct.pack_into("<HHIIH", tail, 8, count, count, len(directory), start, 0)
    path.write_bytes(data[:start] + directory + tail)
    with in_time(), pytest.raises(InspectError, match="it claims to unpack from"):
        inspect_path(path)


def test_a_member_of_more_than_any_linker_makes() -> None:
    packed = 1 << 22
    member = zips.Member("demo/_C.so", 0, packed, (1 << 31) + 1, 0, 8)
    data = struct.pack("<4s22xHH", b"PK\3\4", 0, 0) + b"\0" * packed
    with pytest.raises(InspectError, match="claims to unpack"):
        zips.Archive(memoryview(data), (member,), "x.whl").read(member)


def test_a_tag_that_stands_for_very_many(make_wheel: Callable[..., Path]) -> None:
    part = ".".join(["a"] * 1000)
    path = make_wheel({"demo/a.py": b""}, wheel=f"Wheel-Version: 1.0\nTag: {part}-{part}-{part}\n")
    with in_time(), pytest.raises(InspectError, match="stands for 1000000000 tags"):
        inspect_path(path)


def test_numbers_of_thousands_of_digits_are_findings(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel(
        {"demo/a.py": b""}, metadata=f"Name: demo\nVersion: {'1' * 5000}\n", record=f"demo/a.py,,{'9' * 5000}\n"
    )
    assert {finding.rule for finding in inspect_path(path).findings} >= {"wheel-version", "record"}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
