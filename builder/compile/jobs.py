"""How many compile jobs fit: cores when memory allows, fewer when it does not."""

from __future__ import annotations

import os
from pathlib import Path

_PER_JOB = 9_500_000_000
"""Bytes: the largest resident size seen of one cicc (a Marlin unit of vLLM 0.20.0 for 12.0)."""


def job_count(asked: str) -> int:
    """`auto`, or a number of at least 1."""
    if asked != "auto":
        return max(1, int(asked))
    return max(1, min(len(os.sched_getaffinity(0)), available_memory() // _PER_JOB))


def available_memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that new processes may use: MemAvailable (not MemFree), or less under a cgroup limit."""
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return available
    return available if limit == "max" else min(available, max(0, int(limit) - used))
