"""A layer's bytes as they were before they were packed: gzip, Zstandard or plain, in pieces of bounded size."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import IO, Final, Protocol, cast

import zstandard

from builder.inspect.oci.layout import damaged

CHUNK: Final = 1 << 20
"""Bytes that are read at once, at most."""


class Stream(Protocol):
    """What is read from, piece by piece."""

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes, `size` at most; none at the end."""
        ...


def inflated(packed: Stream, where: str) -> Stream:
    """By the first bytes, not by the media type: docker-archives do not say it, and some tools say it wrongly."""
    head = packed.read(4)
    pieces = _Joined(head, packed)
    if head[:2] == b"\x1f\x8b":
        return _Pieces(_gunzip(pieces, where))
    if head == b"\x28\xb5\x2f\xfd":
        reader = zstandard.ZstdDecompressor().stream_reader(cast("IO[bytes]", pieces), read_across_frames=True)
        return _Pieces(iter(lambda: reader.read(CHUNK), b""))
    return pieces


class _Joined(io.RawIOBase):
    """Bytes already read, then the rest."""

    def __init__(self, head: bytes, rest: Stream) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1, /) -> bytes:
        if self._head:
            data, self._head = self._head, b""
            return data
        return self._rest.read(size)


class _Pieces(io.RawIOBase):
    """An iterator of pieces as a stream; a read may give less than asked for, but never nothing before the end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def read(self, size: int = -1, /) -> bytes:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._left = piece
        count = len(self._left) if size < 0 else size
        data, self._left = self._left[:count], self._left[count:]
        return data


def _gunzip(packed: Stream, where: str) -> Iterator[bytes]:
    """Members of a gzip stream, one after the other, in pieces of bounded size."""
    machine = zlib.decompressobj(31)
    left = b""
    while True:
        data = left or packed.read(CHUNK)
        if not data:
            break
        if machine.eof:
            machine = zlib.decompressobj(31)
        yield machine.decompress(data, CHUNK)
        left = machine.unconsumed_tail or machine.unused_data
    while tail := machine.decompress(b"", CHUNK):
        yield tail
    if not machine.eof:
        raise damaged("its gzip stream ends early", where)
