"""Waits for a program's end without taking its status."""

from __future__ import annotations

import os
import select
import time

_LOOK = 0.02
"""Seconds between looks where the end cannot be waited for."""


class Child:
    """The end of a child of ours, by its pidfd; or by looking now and then, where an old sandbox has none."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._end = _pidfd(pid)
        self._poller = select.poll()
        if self._end >= 0:
            self._poller.register(self._end, select.POLLIN)

    def ended(self, patience: float) -> bool:
        """Whether it ends within so many seconds."""
        if self._end < 0:
            time.sleep(min(patience, _LOOK))
            return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        if not self._poller.poll(patience * 1000):
            return False
        os.close(self._end)
        return True


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return -1
