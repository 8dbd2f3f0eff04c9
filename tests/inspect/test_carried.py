"""Device code that a library carries as plain data, where NVIDIA's tools do not look."""

import struct
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builder.errors import InspectError
from builder.inspect import elf, inspect_path
from builder.inspect.carried import carried

PIECE = 1 << 20
CODE, DEBUG, PROGRAM_BITS = 0x6, 0x0, 1
DATA = 0x2


def host(body: bytes, flags: int = DATA, name: bytes = b".rodata") -> elf.Elf:
    """A library for x86_64 with one section."""
    names = b"\0" + name + b"\0.shstrtab\0"
    at = 64 + len(body) + len(names)
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, 3, 2)
    rows = (
        struct.pack("<IIQQQQIIQQ", 1, PROGRAM_BITS, flags, 0, 64, len(body), 0, 0, 8, 0),
        struct.pack("<IIQQQQIIQQ", 2 + len(name), 3, 0, 0, 64 + len(body), len(names), 0, 0, 1, 0),
    )
    return elf.parse(memoryview(head + body + names + bytes(64) + b"".join(rows)))


@pytest.fixture
def cubin(samples: Path) -> bytes:
    return (samples / "scale_sm_120a.cubin").read_bytes()


@pytest.fixture
def fatbin(samples: Path) -> bytes:
    return (samples / "scale.fatbin").read_bytes()


def found(library: elf.Elf) -> list[bytes]:
    return [bytes(part) for part in carried(library)]


@pytest.mark.parametrize("level", ["arch", "sass"])
def test_cubins_and_fatbins_in_data_are_read_like_all_others(samples: Path, level: str) -> None:
    """A compiler's template of a cubin's header is in the sample too, and is no code."""
    (library,) = inspect_path(samples / "carried.so", level=level).objects  # type: ignore[arg-type]
    assert [(image.kind, image.arch, image.container) for image in library.images] == [
        ("sass", "sm_120a", 0),
        ("sass", "sm_90", 1),
        ("sass", "sm_120f", 1),
        ("ptx", "sm_120a", 1),
    ]
    if level == "sass":
        assert [kernel.container for kernel in library.kernels] == [0, 1, 1, 1]
        assert (library.devices["12.1"].native, library.devices["12.1"].none) == (1, 1)


@pytest.mark.parametrize("at", [0, 8, PIECE - 8, PIECE, PIECE + 8, 3 * PIECE - 8])
def test_wherever_it_begins_it_is_found(cubin: bytes, fatbin: bytes, at: int) -> None:
    for code in (cubin, fatbin):
        assert found(host(bytes(at) + code + b"data after it, no multiple of 8")) == [code]


def test_of_two_that_follow_one_another_each_is_found_and_none_twice(cubin: bytes, fatbin: bytes) -> None:
    """The fatbin holds cubins that are not compressed."""
    assert fatbin.count(elf.MAGIC) == 2
    assert found(host(fatbin + cubin + bytes(-len(cubin) % 8) + fatbin)) == [fatbin, cubin, fatbin]


def test_what_ends_outside_its_section_is_no_code(cubin: bytes, fatbin: bytes) -> None:
    for code, sizes in ((cubin, (4, 63, 64, 100, len(cubin) - 1)), (fatbin, (4, 15, 16, 100))):
        assert found(host(code)) == [code]
        for size in sizes:
            assert found(host(code[:size])) == []


def test_a_host_s_own_library_in_data_is_no_code(cubin: bytes) -> None:
    assert found(host(cubin[:18] + struct.pack("<H", 62) + cubin[20:])) == []


def test_headers_that_share_a_table_end_in_an_error_and_not_in_hours() -> None:
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 1 << 40, 0, 64, 0, 64, 0, 0, 64, 65535, 0)
    body = head * (8_000_000 // 64)
    start = time.process_time()
    with pytest.raises(InspectError, match="without number"):
        found(host(body))
    assert time.process_time() - start < 5


def test_sections_of_data_may_not_overlap(cubin: bytes) -> None:
    library = host(cubin)
    rows = np.repeat(library.sections[1:2], 1000)
    with pytest.raises(InspectError, match="overlap"):
        found(replace(library, sections=np.concatenate((library.sections[:1], rows, library.sections[2:]))))


@pytest.mark.parametrize(("flags", "name"), [(CODE, b".text"), (DEBUG, b".debug_str"), (DATA, b".nv_fatbin")])
def test_instructions_debug_facts_and_fatbin_sections_are_not_searched(cubin: bytes, flags: int, name: bytes) -> None:
    assert found(host(cubin, flags, name)) == []
