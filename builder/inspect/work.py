"""How the work is spread: mapped files, as many threads as cores, and a map that they share.

Threads, because inflating, unpacking, hashing and numpy let go of the interpreter's lock, and facts need not be copied
between processes.
"""

from __future__ import annotations

import gc
import hashlib
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

_SWITCH_SECONDS = 0.0002
"""How long a thread that comes back from inflating waits until the interpreter's lock is asked for. Python's own
5 ms are longer than most of what a thread does between two images, and cost a tenth of the whole."""

_BLAS = "OPENBLAS_NUM_THREADS"

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def mapped(path: Path) -> Iterator[memoryview]:
    """The file's bytes, read when they are looked at. Raises OSError."""
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        area = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        yield memoryview(area)  # unmapped when the last view of it goes


def load_numpy() -> None:
    """Import numpy without the threads that it starts for linear algebra, of which nothing here has any.

    There is one for each core, and they keep it busy for a tenth of a second, just when a file's digest is made.
    """
    said = os.environ.get(_BLAS)
    os.environ[_BLAS] = "1"
    try:
        import numpy as np  # noqa: F401 -- for what it does when it is first imported
    finally:
        if said is None:
            del os.environ[_BLAS]
        else:
            os.environ[_BLAS] = said


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """Threads to read facts with."""
    with _in_haste(), threads() as pool:
        yield pool


@contextmanager
def threads() -> Iterator[ThreadPoolExecutor]:
    """A thread per core; on the way out, what has begun is finished and the rest is dropped."""
    pool = ThreadPoolExecutor(cores())
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _in_haste() -> Iterator[None]:
    """Short waits for the interpreter's lock, and no search for cycles: facts have none, and are many.

    They are left out of every later search too, the one when the interpreter ends as well: each takes as long as all
    the texts of a wheel.
    """
    interval, collects = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.freeze()
        if collects:
            gc.enable()


def cores() -> int:
    """How many cores this process may use, eight at most: more wait for the lock, and hold memory."""
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(have, 8)


def share(pool: ThreadPoolExecutor, act: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`map` with the help of whatever workers are idle; for a task of the pool too, as it never waits for one to be.

    A helper that comes too late is left in the queue, so it must not keep the items: their iterator lets go of them.
    """
    todo, found = iter(list(enumerate(items))), dict[int, Result]()

    def work() -> None:
        try:
            for index, item in todo:
                found[index] = act(item)
        finally:
            list(todo)  # after an error nobody need go on

    helpers = [pool.submit(work) for _ in range(cores() - 1)]
    work()
    for helper in helpers:
        if not helper.cancel():
            helper.result()
    return [found[index] for index in sorted(found)]


def beside(pool: ThreadPoolExecutor, act: Callable[[], Item], other: Callable[[], Result]) -> tuple[Item, Result]:
    """What both return; an idle worker does the other meanwhile, else it comes after."""
    helper = pool.submit(other)
    try:
        done = act()
    finally:
        late = helper.cancel()
    return done, other() if late else helper.result()


def sha256(data: memoryview) -> bytes:
    """The digest; large data is hashed without the interpreter's lock."""
    return hashlib.sha256(data).digest()
