"""Zip archives whose members are compressed beforehand: in parallel, or kept from an earlier build.

`zipfile` compresses a member as it writes it, one after the other, and takes none that is compressed already; for a
wheel of large objects that is most of the time between the last link and the wheel. What is written here is the
plain form of 1989: deflated members, no extra fields, no zip64, and a date that the caller decides.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Final

import deflate

from builder.compile.jobs import cores
from builder.errors import WheelError

LEVEL: Final = 6
FORM: Final = f"deflate {LEVEL} {deflate.__version__}"
"""What decides how bytes are packed: a packed member is kept under it."""

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_REGULAR: Final = 0o100000
_DATE: Final = (2020 - 1980) << 9 | 1 << 5 | 1
"""2020-01-01, as DOS writes it."""
_UTF8: Final = 0x800


@dataclass(frozen=True, slots=True)
class Packed:
    """One file as it stands in an archive: deflated bytes, and the facts of the plain ones.

    `sha256` is the digest, `size` the length and `crc` the CRC-32 of the plain bytes.
    """

    name: str
    mode: int
    data: bytes
    crc: int
    size: int
    sha256: bytes

    def read(self) -> bytes:
        """The plain bytes."""
        return bytes(deflate.deflate_decompress(self.data, self.size)) if self.size else b""


def pack(name: str, data: bytes, mode: int) -> Packed:
    """Compress; the same bytes always give the same ones with one version of the library, which is locked."""
    packed = bytes(deflate.deflate_compress(data, LEVEL))
    return Packed(name, mode, packed, zlib.crc32(data), len(data), hashlib.sha256(data).digest())


def pool() -> ThreadPoolExecutor:
    """Threads to pack with, a core's each: the library lets go of Python's lock meanwhile."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="pack")


def write_zip(stream: IO[bytes], members: Iterable[Packed]) -> None:
    """Write the archive, members in the order given. Raises WheelError where the plain form does not reach."""
    places: list[tuple[Packed, int]] = []
    at = 0
    for member in members:
        places.append((member, at))
        at += stream.write(_local(member)) + stream.write(member.data)
    _check(places, at)
    length = sum(stream.write(_central(member, place)) for member, place in places)
    stream.write(_END.pack(b"PK\5\6", 0, 0, len(places), len(places), length, at, 0))


def _check(places: Sequence[tuple[Packed, int]], total: int) -> None:
    if len(places) > 0xFFFF or total > 0xFFFF_FFFF:
        raise WheelError(
            f"{len(places)} files and {total} bytes are too many for one wheel",
            where="the wheel's archive",
            expected="at most 65535 files and 4 GiB: what every installer reads",
            remedy="leave components out of the recipe, or build fewer architectures",
        )


def _facts(member: Packed) -> tuple[int, ...]:
    """Version needed (2.0), flags, method (deflate), time, date, CRC and both sizes."""
    flags = 0 if member.name.isascii() else _UTF8
    return 20, flags, 8, 0, _DATE, member.crc, len(member.data), member.size


def _local(member: Packed) -> bytes:
    name = member.name.encode()
    return _LOCAL.pack(b"PK\3\4", *_facts(member), len(name), 0) + name


def _central(member: Packed, place: int) -> bytes:
    name = member.name.encode()
    attributes = (_REGULAR | member.mode) << 16
    made_by = 3 << 8 | 20
    head = (b"PK\1\2", made_by, *_facts(member), len(name), 0, 0, 0, 0, attributes, place)
    return _CENTRAL.pack(*head) + name
