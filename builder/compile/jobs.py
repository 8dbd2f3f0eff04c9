"""How many units ninja has in hand: cores' worth of running steps, and some that wait for memory."""

from __future__ import annotations

import os
from pathlib import Path

from builder.compile.gate.memory import groups


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


def cores(proc: str = "/proc") -> int:
    """Cores that we may use: our affinity, or fewer under the quota of a cgroup around us (versions 1 and 2)."""
    quotas = [_quota(Path(folder), version) for folder, version in groups("cpu", proc)]
    return max(1, min([len(os.sched_getaffinity(0)), *(quota for quota in quotas if quota is not None)]))


def _quota(group: Path, version: str) -> int | None:
    names = ("cpu.max",) if version == "2" else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    try:
        most, period = " ".join((group / name).read_text(encoding="ascii") for name in names).split()
        return int(most) // int(period) if int(most) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # `max`, or no such file
        return None
