"""Waiting in tests for what another process or thread does: with an end, so that a fault is a failure and no hang."""

import time
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds. Long, since other work may share the cores; it is waited out only where something is wrong."""


def soon(holds: Callable[[], object], patience: float = PATIENCE) -> bool:
    """Whether it comes to hold."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
