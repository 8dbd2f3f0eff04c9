"""Several things at the same time, each in a thread: the first error ends them all, and is the one that is raised."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar

_Result = TypeVar("_Result")

GRACE: Final = 3.0
"""Seconds that those that were told to stop have for it. One left behind holds up no exit: its thread is a daemon, its
locks fall with the process, and it can start no program any more."""


def together(acts: Sequence[Callable[[], _Result]], halt: Callable[[], None]) -> list[_Result]:
    """What each act gives, in their order. After an error, Ctrl-C included, `halt` must make the others end.

    Raises the first error; what the others end with then is their answer to `halt`. A single act runs in place.
    """
    if len(acts) == 1:
        return [acts[0]()]
    ended: SimpleQueue[Future[_Result]] = SimpleQueue()
    futures: list[Future[_Result]] = [Future() for _ in acts]
    threads = [Thread(target=_run, args=pair, daemon=True) for pair in zip(acts, futures, strict=True)]
    try:
        for future, thread in zip(futures, threads, strict=True):
            future.add_done_callback(ended.put)
            thread.start()
        for _ in acts:
            ended.get().result()
    except BaseException:
        halt()
        _settle(threads)
        raise
    return [future.result() for future in futures]


def _run(act: Callable[[], _Result], future: Future[_Result]) -> None:
    try:
        future.set_result(act())
    except BaseException as error:  # noqa: BLE001  raised in the caller's thread
        future.set_exception(error)


def _settle(threads: Sequence[Thread]) -> None:
    end = time.monotonic() + GRACE
    for thread in (thread for thread in threads if thread.ident is not None):
        thread.join(max(0.0, end - time.monotonic()))
