"""Cubins and fatbins that a library carries as plain data, to hand them to the driver itself.

The linker puts what nvcc compiles into a section of its own, and NVIDIA's tools look nowhere else. Code that somebody
compiled before and wrote into an array is in no such section, and runs all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from builder.errors import InspectError
from builder.inspect import elf, fatbin

_ALIGNED = 8
"""Bytes. Compilers put arrays of this size at multiples of 16 at least."""

_AT_ONCE = 1 << 20
_PATIENCE, _TABLES = 1 << 20, 4
"""Bytes of section tables that are looked at, and so many times the file's size. Of real cubins each is looked at once.
"""

_STARTS = tuple(int.from_bytes(magic, "little") for magic in (elf.MAGIC, fatbin.MAGIC_BYTES))


def carried(host: elf.Elf) -> Iterator[memoryview]:
    """Each cubin (`elf.MAGIC`) and fatbin (`fatbin.MAGIC_BYTES`) in the data of a host's file, in their order.

    One that does not end within its section is none: the compilers' own libraries hold headers to fill in. Raises
    InspectError where many claim the same tables.
    """
    patience = _PATIENCE + _TABLES * len(host.data)
    for body in elf.data_sections(host):
        free = 0
        for at in _starts(body):
            size, looked = _size(body[at:]) if at >= free else (0, 0)
            patience -= looked
            if patience < 0:
                raise _crowded(host.where)
            if size:
                yield body[at : at + size]
                free = at + size


def _starts(body: memoryview) -> Iterator[int]:
    """Where one may begin. In pieces, so that what is compared stays in the cache."""
    for start in range(0, len(body) - _ALIGNED + 1, _AT_ONCE):
        piece = body[start : start + _AT_ONCE]
        words = np.frombuffer(piece[: len(piece) // _ALIGNED * _ALIGNED], "<u4")[::2]
        found = np.flatnonzero((words == _STARTS[0]) | (words == _STARTS[1]))
        yield from (start + _ALIGNED * place for place in found.tolist())


def _size(data: memoryview) -> tuple[int, int]:
    """Bytes of the whole that begins here, 0 for none; and of the table that had to be looked at for it."""
    if bytes(data[:4]) == fatbin.MAGIC_BYTES:
        size = fatbin.extent(data)
        return (size if size <= len(data) else 0), 0
    extent = elf.cubin_extent(data)
    if extent is None:
        return 0, 0
    return (extent.size if extent.size <= len(data) else 0), extent.table


def _crowded(where: str) -> InspectError:
    return InspectError(
        "its data holds headers of cubins without number, all with the same tables",
        where=where,
        expected="whole cubins, one after another",
        remedy="the file is damaged, or made to take time: fetch or build it again",
    )
