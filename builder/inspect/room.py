"""Memory that a thread unpacks one thing after another into, and work that is dealt out so that it fits there.

A page that is fresh from the system takes longer to clear than libdeflate takes to fill it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

_LEAST, _MOST = 1 << 23, 1 << 28
"""Bytes: from the first on numpy asks for huge pages; up to the second, a room that is too small is doubled."""

_SHARED = 8
"""With so many threads the rooms beside the largest are as large together as that one, with fewer so much less: what
waits for the largest room costs time where there are cores to work meanwhile, and nothing where they are busy.
"""

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

    Each unpacks into its own room what it takes, one after another. Whoever leaves early, by an error too, ends what is
    not begun.
    """
    deal = _Deal(todo, threads)

    def work() -> list[Result]:
        room, found = Room(), list[Result]()
        try:
            while (errand := deal.take(room.size)) is not None:
                found.append(errand.run(room))
        except BaseException:
            deal.drop()  # an error has made the rest useless
            raise
        return found

    working = [pool.submit(work) for _ in range(min(threads, len(todo)))]
    try:
        yield lambda: [result for each in working for result in each.result()]
    finally:
        deal.drop()


class _Deal(Generic[Result]):
    """What is left to do, and how large the rooms of the threads are that do it."""

    def __init__(self, todo: Sequence[Errand[Result]], threads: int) -> None:
        self._left, self._lock = list(todo), threading.Lock()
        self._share, self._rooms = threads / _SHARED, dict[int, int]()

    def take(self, room: int) -> Errand[Result] | None:
        """For the thread that asks: the first that fits into the room it has, else the first that may have a new one.

        None when there is nothing left for it: what is larger waits for the thread with the largest room.
        """
        me = threading.get_ident()
        with self._lock:
            chosen = self._first(room) or self._first(self._allowed(me, room))
            if chosen is None:
                self._rooms.pop(me, None)
            else:
                self._left.remove(chosen)
                self._rooms[me] = max(room, chosen.size)
            return chosen

    def drop(self) -> None:
        """Nothing more is to be done."""
        with self._lock:  # another thread may be choosing
            self._left.clear()

    def _first(self, most: float) -> Errand[Result] | None:
        return next((errand for errand in self._left if errand.size <= most), None)

    def _allowed(self, me: int, room: int) -> float:
        """Bytes. Beside the largest room all others together are a share of it; the smallest rooms cost nothing."""
        others = [size for thread, size in self._rooms.items() if thread != me]
        largest = max(others, default=0)
        return math.inf if room >= largest else max(_LEAST, largest * (1 + self._share) - sum(others))
