"""Memory that a thread unpacks one thing after another into, and work that is dealt out so that it fits there.

A page that is fresh from the system takes longer to clear than libdeflate takes to fill it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

_LEAST, _MOST = 1 << 23, 1 << 28
"""Bytes: from the first on numpy asks for huge pages; up to the second, a room that is too small is doubled."""

Result = TypeVar("Result")


class Room(threading.local):
    """A thread's own memory. It grows to the largest thing asked for, and is given back with the room."""

    def __init__(self) -> None:
        self._kept = memoryview(b"")

    @property
    def size(self) -> int:
        """Bytes that are at hand without asking for more."""
        return len(self._kept)

    def of(self, size: int) -> memoryview:
        """`size` bytes that are good until the thread asks again. Raises MemoryError."""
        if size > len(self._kept):
            more = max(size + size // 8, _LEAST, min(2 * len(self._kept), _MOST))  # what is not touched costs nothing
            self._kept = memoryview(b"")  # let go of before there is more
            self._kept = np.empty(more, np.uint8).data
        return self._kept[:size]


@dataclass(frozen=True, slots=True)
class Errand(Generic[Result]):
    """Work that unpacks at most `size` bytes at once into the room that it is given."""

    size: int
    run: Callable[[Room], Result]


@contextmanager
def errands(pool: Executor, todo: Sequence[Errand[Result]], threads: int) -> Iterator[Callable[[], list[Result]]]:
    """Let `threads` of the pool do them; yields what waits for the results, which are in no order.

    A thread takes the first that fits into the room it has, else the first: so the largest are unpacked into one room
    after another, where there would be one for each. Whoever leaves early, by an error too, ends what is not begun.
    """
    left, lock = list(todo), threading.Lock()

    def work() -> list[Result]:
        room, found = Room(), list[Result]()
        try:
            while (errand := _next(left, lock, room.size)) is not None:
                found.append(errand.run(room))
        finally:
            drop()  # there is nothing left, or an error has made it useless
        return found

    def drop() -> None:
        with lock:  # another thread may be choosing
            left.clear()

    working = [pool.submit(work) for _ in range(min(threads, len(todo)))]
    try:
        yield lambda: [result for each in working for result in each.result()]
    finally:
        drop()


def _next(left: list[Errand[Result]], lock: threading.Lock, room: int) -> Errand[Result] | None:
    with lock:
        chosen = next((errand for errand in left if errand.size <= room), left[0] if left else None)
        if chosen is not None:
            left.remove(chosen)
        return chosen
