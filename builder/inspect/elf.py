"""Reads 64-bit little-endian ELF, host objects and cubins alike, from a buffer.

pyelftools makes a Python object per section and per symbol: seconds for libtorch_cuda, and
minutes over a wheel's hundreds of cubins with thousands of sections each. Here tables are numpy views
of the mapped bytes, and only the names that are asked for become strings. Arrays' own methods are called rather than
numpy's functions of the same name, which for small tables take twice as long.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.errors import InspectError
from builder.inspect.facts import ElfFacts

MAGIC = b"\x7fELF"
EM_CUDA = 190
NOTE = 7
"""The type of sections in which tools leave what they were asked for."""

_MACHINES = {3: "i386", 21: "ppc64le", 40: "arm", 62: "x86_64", 183: "aarch64", EM_CUDA: "cuda", 243: "riscv64"}
MACHINES = frozenset(_MACHINES.values()) - {_MACHINES[EM_CUDA]}
"""What a host may be, by the names that platform tags have where they have one."""

_HEADER = struct.Struct("<HHIQQQIHHHHHH")
_SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("addr", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("align", "<u8"),
        ("entsize", "<u8"),
    ]
)
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_WORDS = np.dtype([("first", "<u8"), ("value", "<u8"), ("size", "<u8")])
"""A symbol again, its first four fields as one number: name, info << 32, other << 40, section << 48."""
_DYNAMIC = np.dtype([("tag", "<u8"), ("value", "<u8")])
_PROGBITS, _SYMTAB, _DYNAMIC_TABLE, _NOBITS, _DYNSYM, _SHNDX = 1, 2, 6, 8, 11, 18
_VERNEED, _VERSYM = 0x6FFFFFFE, 0x6FFFFFFF
_NEEDED, _SONAME, _RPATH, _RUNPATH = 1, 14, 15, 29
_GLOBAL, _WEAK, _UNIQUE, _FUNCTION = 1, 2, 10, 2
_ALLOCATED, _EXECUTABLE = 2, 4
_FATBIN_NAMES = (b".nv_fatbin", b"__nv_relfatbin")
_ENTRY_MASK, _ENTRY = 15 << 32 | 0x10 << 40, _FUNCTION << 32 | 0x10 << 40
_SHARING = 8
_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI)_(\d+(?:\.\d+)+)")

Table = npt.NDArray[Any]


@dataclass(frozen=True)
class Elf:
    """An ELF file's tables over its bytes. Made by `parse`."""

    data: memoryview
    where: str
    kind: int
    machine: int
    flags: int
    abi_version: int
    sections: Table
    names_index: int

    @property
    def bare(self) -> bool:
        """True without a single section: nothing tells then what code and which needs the file has."""
        return not self.sections["type"].any()

    def body(self, index: int) -> memoryview:
        """The bytes of section `index`; raises InspectError when they lie outside the file."""
        if not 0 <= index < len(self.sections):
            raise _bad(f"there is no section {index}", self.where)
        row = self.sections[index]
        start, size = int(row["offset"]), int(row["size"])
        if row["type"] == _NOBITS:
            return self.data[:0]
        if start + size > len(self.data):
            raise _bad(f"section {index} claims bytes {start}..{start + size} of {len(self.data)}", self.where)
        return self.data[start : start + size]

    @cached_property
    def _names(self) -> bytes:
        return bytes(self.body(self.names_index)) if self.names_index else b""

    def name(self, index: int) -> str:
        """The name of section `index`."""
        return text_at(self._names, int(self.sections[index]["name"]))

    def is_named(self, index: int, *names: bytes) -> bool:
        """True when section `index` has one of these names; however long its own is, little of it is looked at."""
        start = int(self.sections[index]["name"])
        return any(self._names.startswith(name + b"\0", start) for name in names)

    def of_type(self, kind: int) -> int | None:
        """The first section of that type."""
        found = (self.sections["type"] == kind).nonzero()[0]
        return int(found[0]) if len(found) else None

    def all_of_type(self, kind: int) -> list[int]:
        """Every section of that type."""
        found: list[int] = (self.sections["type"] == kind).nonzero()[0].tolist()
        return found

    @cached_property
    def own_symbols(self) -> tuple[Table, bytes]:
        """The first fields of each symbol as one number (`_WORDS`), and the string table; both empty where none is."""
        index = self.of_type(_SYMTAB)
        if index is None:
            return np.empty(0, "<u8"), b""
        words = _table(self.body(index), _WORDS)["first"]
        return words, bytes(self.body(int(self.sections[index]["link"])))

    def symbols(self, index: int) -> tuple[Table, bytes]:
        """A symbol table section as an array, and its string table."""
        names = bytes(self.body(int(self.sections[index]["link"])))
        return _table(self.body(index), _SYMBOL), names


def parse(data: memoryview, where: str = "") -> Elf:
    """Read the headers. Raises InspectError for anything but 64-bit little-endian ELF, or cut tables."""
    if len(data) < 64 or data[:4] != MAGIC:
        raise _bad("this is no ELF file", where)
    if data[4] != 2 or data[5] != 1:
        raise _bad("only 64-bit little-endian ELF is read", where)
    fields = _HEADER.unpack_from(data, 16)
    kind, machine, table, flags = fields[0], fields[1], fields[5], fields[6]
    sections, names = _sections(data, table, fields[10], fields[11], fields[12], where)
    return Elf(data, where, kind, machine, flags, data[8], sections, names)


def _sections(data: memoryview, table: int, size: int, count: int, names: int, where: str) -> tuple[Table, int]:
    if table == 0:
        return np.empty(0, _SECTION), 0
    if size != _SECTION.itemsize or table + size > len(data):
        raise _bad("its section table is cut short or of another size", where)
    first = np.frombuffer(data, _SECTION, 1, table)[0]
    count = count or int(first["size"])  # more than 65,279 sections: the real count lies in section 0
    names = int(first["link"]) if names == 0xFFFF else names
    if table + count * size > len(data) or names >= max(count, 1):
        raise _bad(f"its section table claims {count} sections, names in {names}", where)
    return np.frombuffer(data, _SECTION, count, table), names


def machine_name(machine: int) -> str:
    """`aarch64`, `x86_64`, `cuda`, or `machine 99`."""
    return _MACHINES.get(machine, f"machine {machine}")


def text_at(table: bytes, offset: int) -> str:
    """The NUL-ended string at `offset`, empty when it lies outside the table."""
    if offset >= len(table):
        return ""
    end = table.find(b"\0", offset)
    return table[offset : end if end >= 0 else len(table)].decode(errors="replace")


def fatbin_sections(elf: Elf) -> Iterator[memoryview]:
    """The sections that hold fatbins, linked or relocatable. Raises InspectError when they overlap."""
    chosen = (index for index in range(len(elf.sections)) if elf.is_named(index, *_FATBIN_NAMES))
    return _apart(elf, chosen, "its fatbin sections overlap")


def data_sections(elf: Elf) -> Iterator[memoryview]:
    """A program's own data: no fatbin sections, no instructions, no debug facts. Raises InspectError on overlaps."""
    chosen = (elf.sections["type"] == _PROGBITS) & (elf.sections["flags"] & (_ALLOCATED | _EXECUTABLE) == _ALLOCATED)
    own = (index for index in np.flatnonzero(chosen).tolist() if not elf.is_named(index, *_FATBIN_NAMES))
    return _apart(elf, own, "its sections of data overlap")


def _apart(elf: Elf, indexes: Iterable[int], overlap: str) -> Iterator[memoryview]:
    """The sections' bytes, which are no more together than the file has: else a small file takes hours to read."""
    left = len(elf.data)
    for index in indexes:
        body = elf.body(index)
        left -= len(body)
        if left < 0:
            raise _bad(overlap, elf.where)
        yield body


@dataclass(frozen=True, slots=True)
class Extent:
    """How many bytes a cubin takes, and how many of those are its table of sections."""

    size: int
    table: int


def cubin_extent(data: memoryview) -> Extent | None:
    """Of the cubin that begins here; None where none does, or not all of it is there."""
    if len(data) < 64 or bytes(data[:6]) != MAGIC + b"\2\1":
        return None
    _, machine, version, _, segments, table, _, own, width, count, size, sections, _ = _HEADER.unpack_from(data, 16)
    if (machine, version, own, size) != (EM_CUDA, 1, 64, _SECTION.itemsize):
        return None
    end = max(segments + width * count, table + size * sections)
    if end > len(data):
        return None
    rows = np.frombuffer(data, _SECTION, sections, table)
    bodies = rows["offset"] + rows["size"] * (rows["type"] != _NOBITS)
    return Extent(max(end, int(bodies.max(initial=0))), size * sections)


@dataclass(frozen=True, slots=True)
class CodeSections:
    """A cubin's code, sorted by place: parallel arrays of first byte and size, and each kernel's name.

    A section that is no kernel (a device function that was not inlined) has the name None.
    """

    names: tuple[str | None, ...]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]


def code_sections(elf: Elf) -> CodeSections:
    """Every section of instructions. The symbol's entry bit tells kernels from functions."""
    chosen = ((elf.sections["type"] == _PROGBITS) & (elf.sections["flags"] & _EXECUTABLE != 0)).nonzero()[0]
    rows = elf.sections[chosen]
    order = rows["offset"].argsort(kind="stable")
    rows, chosen = rows[order], chosen[order]
    starts, sizes = rows["offset"].astype(np.int64), rows["size"].astype(np.int64)
    ends = starts + sizes  # which wraps round where a size is absurd
    if len(rows) and (int(min(starts.min(), sizes.min(), ends.min())) < 0 or int(ends.max()) > len(elf.data)):
        raise _bad("code lies outside the file", elf.where)
    entries = _entry_names(elf)
    return CodeSections(tuple(entries.get(index) for index in chosen.tolist()), starts, sizes)


def _entry_names(elf: Elf) -> dict[int, str]:
    """Section → name of the kernel in it, by the first symbol that says so."""
    words, strings = elf.own_symbols
    places = (words & _ENTRY_MASK == _ENTRY).nonzero()[0]
    first: dict[int, int] = {}
    wide = _wide_owners(elf)
    for place, word in zip(places.tolist(), words[places].tolist(), strict=True):
        first.setdefault(_owner(wide, place, word >> 48), word & 0xFFFFFFFF)
    return dict(zip(first, _texts(elf, strings, list(first.values())), strict=True))


def lacks_only(elf: Elf, name: bytes) -> bool:
    """Whether that is the one symbol that others must bring, beside the assembler's own (`.nv.…`)."""
    words, strings = elf.own_symbols
    offsets = set((words[words >> 48 == 0] & 0xFFFFFFFF).tolist()) - {0}
    outside = [offset for offset in offsets if strings[offset : offset + 1] != b"."]
    return bool(outside) and all(strings.startswith(name + b"\0", offset) for offset in outside)


def _wide_owners(elf: Elf) -> Table:
    """The sections of symbols where there are more than 65,279; empty otherwise."""
    index = elf.of_type(_SHNDX)
    return _table(elf.data[:0] if index is None else elf.body(index), np.dtype("<u4"))


def _owner(wide: Table, symbol: int, section: int) -> int:
    """The section of a symbol, 0 for none."""
    if section < 0xFF00:
        return section
    return int(wide[symbol]) if section == 0xFFFF and symbol < len(wide) else 0


def link_facts(elf: Elf) -> ElfFacts:
    """What the loader will want from this file and what it offers."""
    name = machine_name(elf.machine)
    index = elf.of_type(_DYNSYM)
    index = elf.of_type(_SYMTAB) if index is None else index
    if elf.machine == EM_CUDA or index is None:
        return ElfFacts(machine=name, bare=elf.bare, **_dynamic(elf))
    table, strings = elf.symbols(index)
    bind, outside = table["info"] >> 4, table["shndx"] == 0
    visible = np.isin(table["other"] & 3, (0, 3))
    offered = ~outside & visible & np.isin(bind, (_GLOBAL, _WEAK, _UNIQUE))
    needs = _needs(elf)
    newest = _newest({version for version, _ in needs.values()})
    return ElfFacts(
        machine=name,
        **_dynamic(elf),
        glibc=newest.get("GLIBC", ""),
        glibcxx=newest.get("GLIBCXX", ""),
        cxxabi=newest.get("CXXABI", ""),
        undefined=_named(elf, table, strings, outside & (bind == _GLOBAL)),
        exported=_named(elf, table, strings, offered),
        versions=_versions(elf, table, strings, needs),
    )


def _named(elf: Elf, table: Table, strings: bytes, chosen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted(set(_texts(elf, strings, table["name"][chosen].tolist())) - {""}))


def _texts(elf: Elf, strings: bytes, offsets: list[int]) -> Iterator[str]:
    """The strings at `offsets`. Tails may be shared, but not so much that a small file becomes gigabytes of names."""
    left, whole = _SHARING * len(strings) + 4096, len(strings)
    for offset in offsets:  # tens of thousands: `text_at` for each would take twice as long
        end = strings.find(b"\0", offset)
        text = strings[offset : end if end >= 0 else whole].decode(errors="replace")
        left -= len(text)
        if left < 0:
            raise _bad("its names overlap without reason", elf.where)
        yield text


def _dynamic(elf: Elf) -> dict[str, Any]:
    index = elf.of_type(_DYNAMIC_TABLE)
    if index is None:
        return {}
    rows = _table(elf.body(index), _DYNAMIC)
    strings = bytes(elf.body(int(elf.sections[index]["link"])))

    def of(*tags: int) -> tuple[str, ...]:
        return tuple(_texts(elf, strings, rows["value"][np.isin(rows["tag"], tags)].tolist()))

    paths = tuple(part for text in of(_RPATH, _RUNPATH) if text for part in text.split(":"))
    return {"needed": of(_NEEDED), "soname": next(iter(of(_SONAME)), ""), "rpath": paths}


def _versions(
    elf: Elf, table: Table, strings: bytes, needs: dict[int, tuple[str, str]]
) -> tuple[tuple[str, str, str], ...]:
    """(symbol, version, library) of each undefined symbol with a version, and of needed versions that no symbol has.

    The loader refuses a library that lacks one of the latter too: GLIBC_ABI_DT_RELR stands for packed relocations.
    """
    index = elf.of_type(_VERSYM)
    if index is None or not needs:
        return ()
    numbers = _table(elf.body(index), np.dtype("<u2"))[: len(table)] & 0x7FFF
    chosen = np.flatnonzero((table["shndx"][: len(numbers)] == 0) & np.isin(numbers, list(needs)))
    names = _texts(elf, strings, table["name"][chosen].tolist())
    held = numbers[chosen].tolist()
    bare = {("", *needs[number]) for number in needs.keys() - set(held)}
    return tuple(sorted({(name, *needs[number]) for name, number in zip(names, held, strict=True)} | bare))


def _needs(elf: Elf) -> dict[int, tuple[str, str]]:
    """Version number → (version, library), from the chains of .gnu.version_r."""
    index = elf.of_type(_VERNEED)
    if index is None:
        return {}
    body, found = elf.body(index), dict[int, tuple[int, int]]()
    strings = bytes(elf.body(int(elf.sections[index]["link"])))
    at, left = 0, len(body) // 16
    while left > 0 and at + 16 <= len(body):
        _, count, library, first, following = struct.unpack_from("<HHIII", body, at)
        for number, name in _aux(elf, body, at + first, min(count, left)):
            found[number & 0x7FFF] = (name, library)
        left -= count + 1
        if following == 0:
            break
        at += following
    places = sorted({place for pair in found.values() for place in pair})
    texts = dict(zip(places, _texts(elf, strings, places), strict=True))
    return {number: (texts[name], texts[library]) for number, (name, library) in found.items()}


def _aux(elf: Elf, body: memoryview, at: int, count: int) -> Iterator[tuple[int, int]]:
    for _ in range(count):
        if at + 16 > len(body):
            raise _bad("its table of needed versions is cut short", elf.where)
        _, _, number, name, step = struct.unpack_from("<IHHII", body, at)
        yield number, name
        at += step


def _newest(versions: set[str]) -> dict[str, str]:
    found: dict[str, list[tuple[int, ...]]] = {}
    for version in versions:
        if match := _VERSION.fullmatch(version):
            found.setdefault(match[1], []).append(tuple(int(part) for part in match[2].split(".")))
    return {family: ".".join(map(str, max(numbers))) for family, numbers in found.items()}


def _table(body: memoryview, dtype: np.dtype[Any]) -> Table:
    return np.frombuffer(body[: len(body) // dtype.itemsize * dtype.itemsize], dtype)


def _bad(what: str, where: str) -> InspectError:
    return InspectError(
        what,
        where=where,
        expected="a whole ELF file",
        remedy="the file is damaged or of another kind: fetch or build it again",
    )
