"""Reads CUDA fatbins: containers, entry headers, and payloads when they are asked for.

No maintained library reads this format, and NVIDIA's tools neither tell sm_120f from sm_120 nor
run in this process; hence a reader of our own. Compression is left to the lz4 and zstandard
packages. All numbers are little-endian:

    container  u32 magic, u16 version, u16 header size, u64 size of the entries that follow
    entry      u16 kind, u16 version, u32 header size, u64 padded payload size,
               u32 compressed size (0: plain), at +24 u16 minor and u16 major version of PTX or ABI,
               u32 architecture, at +40 u64 flags, at +56 u64 plain size

Header walks touch headers only, so a mapped file's payloads are never paged in for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from builder.errors import InspectError
from builder.inspect.room import Room

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

MAGIC = 0xBA55ED50
MAGIC_BYTES = struct.pack("<I", MAGIC)
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQI")
_KINDS = {1: "ptx", 2: "sass"}
_LZ4, _ZSTD, _A, _F = 0x2000, 0x8000, 0x10_0000, 0x20_0000
_SLACK, _RATIO, _CEILING = 1 << 16, 256, (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a container. `kind` is ptx, sass or other (link-time IR and the like).

    `version` is that of the PTX language (8.7) or of the cubin's ABI. `offset` is the entry's place in the section,
    `size` its payload there, `plain` its size unpacked.
    """

    kind: str
    arch: str
    version: str
    compression: str
    container: int
    offset: int
    size: int
    plain: int
    payload: memoryview


def entries(section: memoryview, where: str = "", first: int = 0) -> Iterator[Entry]:
    """Every entry of every container in a .nv_fatbin section's bytes, in file order, containers numbered from `first`.

    Raises InspectError where the bytes are no fatbin or claim more than there is.
    """
    offset, container = _next_container(section, 0, where), first
    while offset is not None:
        start, end = _container(section, offset, where)
        yield from _entries(section, start, end, container, where)
        offset, container = _next_container(section, end, where), container + 1


def extent(data: memoryview) -> int:
    """How many bytes the container takes that begins here, 0 where its header is none."""
    if len(data) < _CONTAINER.size:
        return 0
    magic, version, header, size = _CONTAINER.unpack_from(data)
    return header + size if magic == MAGIC and version == 1 and header >= _CONTAINER.size else 0


class Unpacker(Room):
    """A thread's own room for images, and its decompressor."""

    @cached_property
    def zstd(self) -> ZstdDecompressor:
        """The decompressor; one serves any number of frames, one after another."""
        from zstandard import ZstdDecompressor

        return ZstdDecompressor()


def unpack(entry: Entry, where: str = "", room: Unpacker | None = None) -> bytes | memoryview:
    """The entry's plain bytes; a plain payload is returned as it lies, without a copy.

    With `room`, they may lie there and last until this thread unpacks the next entry into it. Raises InspectError
    for damaged data, or data that grows past all reason (256 times and 64 kB).
    """
    if entry.compression == "none":
        return entry.payload
    if entry.plain > min(_SLACK + _RATIO * entry.size, _CEILING):
        raise _bad(f"a {entry.size} B payload claims to unpack to {entry.plain} B", entry.offset, where)
    return _decompress(entry, where, room or Unpacker())


def _decompress(entry: Entry, where: str, room: Unpacker) -> bytes | memoryview:
    import zstandard
    from lz4.block import LZ4BlockError, decompress  # type: ignore[attr-defined]

    try:
        if entry.compression == "lz4":
            data: bytes | memoryview = decompress(entry.payload, uncompressed_size=entry.plain)
        else:
            data = _zstd(entry, zstandard.frame_content_size(entry.payload), room)
    except (LZ4BlockError, zstandard.ZstdError, ValueError, MemoryError) as error:
        raise _bad(f"a {entry.compression} payload is damaged ({error})", entry.offset, where) from error
    if len(data) != entry.plain:
        raise _bad(f"a payload unpacks to {len(data)} B, not {entry.plain} B", entry.offset, where)
    return data


def _zstd(entry: Entry, said: int, room: Unpacker) -> bytes | memoryview:
    """`said` is the size that the frame names, -1 for none: then only a decompressor with a limit is safe."""
    if said == entry.plain:
        data = room.of(said)
        return data[: room.zstd.stream_reader(entry.payload).readinto(data)]
    if said != -1:
        raise ValueError(f"its frame says {said} B, the entry {entry.plain} B")
    return room.zstd.decompress(entry.payload, max_output_size=entry.plain)


def _container(section: memoryview, offset: int, where: str) -> tuple[int, int]:
    if len(section) - offset < _CONTAINER.size:
        raise _bad("a container header is cut short", offset, where)
    _, version, header, size = _CONTAINER.unpack_from(section, offset)
    start = offset + header
    if version != 1 or header < _CONTAINER.size or start + size > len(section):
        raise _bad(f"a container of version {version} claims {header} + {size} B", offset, where)
    return start, start + size


def _entries(section: memoryview, start: int, end: int, container: int, where: str) -> Iterator[Entry]:
    while start < end:
        if end - start < 64:
            raise _bad("an entry header is cut short", start, where)
        kind, _, header, padded, compressed = _ENTRY.unpack_from(section, start)
        minor, major, number, flags, plain = struct.unpack_from("<HHI8xQ8xQ", section, start + 24)
        size = compressed or padded
        if header < 64 or start + header + padded > end or size > padded:
            raise _bad(f"an entry claims {header} + {padded} B, {compressed} of them compressed", start, where)
        payload = section[start + header : start + header + size]
        method = _compression(flags, compressed, start, where)
        yield Entry(
            kind=_KINDS.get(kind, "other"),
            arch=f"sm_{number}{_suffix(flags)}",
            version=f"{major}.{minor}",
            compression=method,
            container=container,
            offset=start,
            size=size,
            plain=size if method == "none" else plain,
            payload=payload,
        )
        start += header + padded


def _suffix(flags: int) -> str:
    return "a" if flags & _A else "f" if flags & _F else ""


def _compression(flags: int, compressed: int, offset: int, where: str) -> str:
    if compressed == 0:
        return "none"
    if flags & _ZSTD:
        return "zstd"
    if flags & _LZ4:
        return "lz4"
    raise _bad(f"an entry is compressed in an unknown way (flags {flags:#x})", offset, where)


def _next_container(section: memoryview, offset: int, where: str) -> int | None:
    """The next header at or after `offset`, past the zeros that align it; None at the end."""
    found = _first_filled(section, -(-offset // 8) * 8)
    if found is not None and section[found : found + 4] != MAGIC_BYTES:
        raise _bad("bytes that belong to no container", found, where)
    return found


def _first_filled(section: memoryview, offset: int) -> int | None:
    """The first 8-byte word at or after `offset` that is not zero; gaps are short, so look in growing steps."""
    step = 4096
    while offset + 8 <= len(section):
        words = np.frombuffer(section[offset : min(offset + step, len(section) // 8 * 8)], "<u8")
        filled = np.flatnonzero(words)
        if len(filled):
            return offset + 8 * int(filled[0])
        offset, step = min(offset + step, len(section) // 8 * 8), min(step * 2, 1 << 24)
    return offset if any(section[offset:]) else None


def _bad(what: str, offset: int, where: str) -> InspectError:
    return InspectError(
        f"{what}, at byte {offset} of the fatbin",
        where=where,
        expected="containers and entries as nvcc's fatbinary writes them",
        remedy="the file is damaged or of a newer format: fetch or build it again, or report it",
    )
