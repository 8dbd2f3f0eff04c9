"""How many units ninja has in hand: cores' worth of running steps, and some that wait for memory."""

from __future__ import annotations

import os
from pathlib import Path


def job_count(asked: str) -> int:
    """Steps that run at once: `auto` is every core, or a number of at least 1. Memory is the gate's matter."""
    return max(1, int(asked)) if asked != "auto" else cores()


def units_in_hand(asked: str) -> int:
    """What ninja is told: `auto` is half as many more than there are cores.

    A unit that waits for memory does no work, and the small ones behind it should not wait with it. How many run is
    the gate's to say. A number is taken as it is.
    """
    return job_count(asked) if asked != "auto" else with_waiting(cores())


def with_waiting(running: int) -> int:
    """The units in hand for so many running ones."""
    return running + (running + 1) // 2


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that we may use: our affinity, or fewer under a cgroup's quota."""
    own = len(os.sched_getaffinity(0))
    try:
        most, period = quota.read_text(encoding="ascii").split()
        return max(1, min(own, int(most) // int(period)))
    except (OSError, ValueError):
        return own
