"""Inflates and checks without holding the interpreter's lock, so that all cores can at once.

The deflate package brings libdeflate, twice as fast as zlib, but its Python functions hold the lock while they
run: two threads take as long as one. Its extension exports libdeflate's own functions; called by ctypes, which lets
go of the lock, they write into our memory. Where they are not exported, and for small files, for which letting go of
the lock takes longer than the work, the Python functions serve.
"""

from __future__ import annotations

import ctypes
from functools import cache

import deflate
import numpy as np

from builder.inspect.room import Room

_SIZE, _PLACE = ctypes.c_size_t, ctypes.c_void_p
_BAD_DATA = 1
_SMALL = 1 << 16


def inflate(packed: memoryview, size: int, room: Room | None = None) -> memoryview:
    """The plain bytes, at most `size` of them; those of large files lie in `room` where it is given.

    Raises ValueError where the data is damaged or more, MemoryError.
    """
    library = _library()
    if library is None or size < _SMALL:
        return _inflate_locked(packed, size)
    plain = room.of(size) if room else np.empty(size, np.uint8).data
    filled = _SIZE()
    worker = library.libdeflate_alloc_decompressor()
    if worker is None:
        raise MemoryError
    try:
        status = library.libdeflate_deflate_decompress(
            worker, _place(packed), len(packed), _place(plain), size, ctypes.byref(filled)
        )
    finally:
        library.libdeflate_free_decompressor(worker)
    if status:
        raise ValueError("bad data" if status == _BAD_DATA else f"it is more than {size} B")
    return plain[: filled.value]


def crc32(data: memoryview) -> int:
    """CRC-32 as zip files have it."""
    library = _library()
    if library is None or len(data) < _SMALL:
        return int(deflate.crc32(data))
    return int(library.libdeflate_crc32(0, _place(data), len(data)))


def _inflate_locked(packed: memoryview, size: int) -> memoryview:
    try:
        return memoryview(deflate.deflate_decompress(packed, size))
    except deflate.DeflateError as error:
        raise ValueError(str(error)) from error


def _place(data: memoryview) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


@cache
def _library() -> ctypes.CDLL | None:
    """The functions of libdeflate with the types of what is called, or None where they are not exported."""
    from deflate import _deflate

    library = ctypes.CDLL(_deflate.__file__)
    try:
        alloc, free = library.libdeflate_alloc_decompressor, library.libdeflate_free_decompressor
        run, crc = library.libdeflate_deflate_decompress, library.libdeflate_crc32
    except AttributeError:
        return None
    alloc.argtypes, alloc.restype = (), _PLACE
    free.argtypes, free.restype = (_PLACE,), None
    run.argtypes, run.restype = (_PLACE, _PLACE, _SIZE, _PLACE, _SIZE, _PLACE), ctypes.c_int
    crc.argtypes, crc.restype = (ctypes.c_uint32, _PLACE, _SIZE), ctypes.c_uint32
    return library
