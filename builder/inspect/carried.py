"""Cubins and fatbins that a library carries as plain data, to hand them to the driver itself.

The linker puts what nvcc compiles into a section of its own, and NVIDIA's tools look nowhere else. Code that somebody
compiled before and wrote into an array is in no such section, and runs all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from builder.inspect import elf, fatbin

_ALIGNED = 8
"""Bytes. Compilers put arrays of this size at multiples of 16 at least."""

_AT_ONCE = 1 << 20
_STARTS = tuple(int.from_bytes(magic, "little") for magic in (elf.MAGIC, fatbin.MAGIC_BYTES))


def carried(host: elf.Elf) -> Iterator[memoryview]:
    """Each cubin (`elf.MAGIC`) and fatbin (`fatbin.MAGIC_BYTES`) in the data of a host's file, in their order.

    One that does not end within its section is none: the compilers' own libraries hold headers to fill in.
    """
    for index in elf.data_sections(host):
        body, free = host.body(index), 0
        for at in _starts(body):
            size = _size(body[at:]) if at >= free else 0
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


def _size(data: memoryview) -> int:
    """Bytes of the whole that begins here, 0 for none."""
    size = fatbin.extent(data) if bytes(data[:4]) == fatbin.MAGIC_BYTES else elf.cubin_extent(data)
    return size if size <= len(data) else 0
