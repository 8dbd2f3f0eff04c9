"""Memory that a thread unpacks one thing after another into: fresh pages for each take a third as long as unpacking."""

from __future__ import annotations

import threading

import numpy as np

_LEAST, _MOST = 1 << 23, 1 << 28
"""Bytes: from the first on numpy asks for huge pages; up to the second, a room that is too small is doubled."""


class Room(threading.local):
    """A thread's own memory. It grows to the largest thing asked for, and is given back with the room."""

    def __init__(self) -> None:
        self._kept = memoryview(b"")

    def of(self, size: int) -> memoryview:
        """`size` bytes that are good until the thread asks again. Raises MemoryError."""
        if size > len(self._kept):
            more = max(size, _LEAST, min(2 * len(self._kept), _MOST))
            self._kept = memoryview(b"")  # let go of before there is more
            self._kept = np.empty(more, np.uint8).data
        return self._kept[:size]
