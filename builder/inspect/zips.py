"""Reads members of a zip file where it lies, mapped, by several threads at once.

`zipfile` reads the directory; its streams are not used, because they copy every byte through a lock and inflate
with zlib at half the speed of libdeflate, which is what a wheel's inspection mostly waits for.
"""

from __future__ import annotations

import io
import struct
import zipfile
from dataclasses import dataclass

from builder.errors import InspectError
from builder.inspect.inflate import crc32, inflate
from builder.inspect.room import Room

_SLACK, _RATIO, _CEILING = 1 << 16, 1040, 1 << 31
"""What a member may unpack to: deflate packs to a 1,040th at best, and code that finds its data by 32-bit distances,
as compilers make it, ends at 2 GiB. The largest library known, torch's for all architectures, is 1.5 GB.
"""

_ALL_SLACK, _ALL_RATIO = 1 << 26, 64
"""What all members may unpack to: so many bytes, and so many times the file's size. Real wheels: 1 to 6 times."""

_LOCAL = struct.Struct("<4s22xHH")


@dataclass(frozen=True, slots=True)
class Member:
    """One file of the archive. `packed` and `size` are bytes, `method` 0 (stored) or 8 (deflated)."""

    name: str
    offset: int
    packed: int
    size: int
    crc: int
    method: int


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip file's bytes and its directory."""

    data: memoryview
    members: tuple[Member, ...]
    where: str

    def read(self, member: Member, room: Room | None = None) -> memoryview:
        """The member's bytes, checked against its CRC; large ones lie in `room` where it is given.

        Raises InspectError when they are damaged.
        """
        packed = self._packed(member)
        plain = packed if member.method == 0 else self._inflate(member, packed, room)
        if len(plain) != member.size or crc32(plain) != member.crc:
            raise self._bad(f"{member.name} is not what the directory says (size or CRC)")
        return plain

    def head(self, member: Member, count: int) -> bytes:
        """Its first `count` bytes, without inflating the rest; empty when they are damaged."""
        import zlib

        try:
            packed = self._packed(member)
            if member.method == 0:
                return bytes(packed[:count])
            return zlib.decompressobj(-15).decompress(packed[: 4 * count + 512], count)
        except (zlib.error, InspectError):
            return b""

    def _packed(self, member: Member) -> memoryview:
        if member.offset < 0 or member.offset + 30 > len(self.data):
            raise self._bad(f"{member.name} begins outside the file")
        magic, name, extra = _LOCAL.unpack_from(self.data, member.offset)
        start = member.offset + 30 + name + extra
        if magic != b"PK\3\4" or start + member.packed > len(self.data):
            raise self._bad(f"{member.name} does not lie where the directory says")
        return self.data[start : start + member.packed]

    def _inflate(self, member: Member, packed: memoryview, room: Room | None) -> memoryview:
        if member.method != 8:
            raise self._bad(f"{member.name} is packed in an unknown way ({member.method})")
        if member.size > min(_SLACK + _RATIO * member.packed, _CEILING):
            raise self._bad(f"{member.name} claims to unpack from {member.packed} B to {member.size} B")
        try:
            return inflate(packed, member.size, room)
        except (ValueError, MemoryError) as error:
            raise self._bad(f"{member.name} does not inflate ({error})") from error

    def _bad(self, what: str) -> InspectError:
        return InspectError(
            what, where=self.where, expected="a whole zip file", remedy="fetch or build the wheel again"
        )


def open_archive(data: memoryview, where: str) -> Archive:
    """Read the directory. Raises InspectError when there is none."""
    try:
        with zipfile.ZipFile(_Reader(data)) as archive:
            infos = archive.infolist()
    except Exception as error:  # zipfile raises half a dozen kinds for damaged directories
        raise InspectError(
            f"this is no zip file ({error})", where=where, expected="a wheel", remedy="fetch or build it again"
        ) from error
    members = tuple(
        Member(
            i.filename, i.header_offset, i.compress_size, i.file_size, i.CRC, -1 if i.flag_bits & 1 else i.compress_type
        )
        for i in infos
        if not i.filename.endswith("/")
    )
    total = sum(member.size for member in members)
    if total > _ALL_SLACK + _ALL_RATIO * len(data):
        raise InspectError(
            f"it claims to unpack from {len(data)} B to {total} B",
            where=where,
            expected=f"at most {_ALL_RATIO} times its size",
            remedy="this is no wheel that anybody built: fetch it again from where it was published",
        )
    return Archive(data, members, where)


class _Reader(io.RawIOBase):
    """A seekable file over a buffer, without a copy."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0, /) -> int:
        base = (0, self._at, len(self._data))[whence]
        if base + offset < 0:
            raise ValueError("before the start of the file")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        end = len(self._data) if size is None or size < 0 else self._at + size
        piece = bytes(self._data[self._at : end])
        self._at += len(piece)
        return piece
