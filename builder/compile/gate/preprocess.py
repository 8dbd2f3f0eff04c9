"""Preprocessing takes little memory, so it waits for nobody; what it takes of the cores is written down all the same.

It is part of what a unit costs, and all that a unit from the compiler cache costs: the cache finds an object by its
preprocessed text.
"""

from __future__ import annotations

import os
import time

from .step import append, become, json_line
from .task import Task

PREPROCESSED = "SPARK_GATE_PREPROCESSED"
"""Environment: the log, a line of JSON a run."""


def preprocess(task: Task, log: str) -> int:
    """Run it and write its line; returns its wait status. Where there can be no child, it takes our place."""
    start, me = time.time(), os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.execv(task.real, [task.real, *task.args])  # noqa: S606
    if child == 0:
        become(task, me)
    _, status, usage = os.wait4(child, 0)
    cpu = round(usage.ru_utime + usage.ru_stime, 3)
    append(log, json_line({"unit": task.unit, "start": start, "end": time.time(), "cpu_seconds": cpu}))
    return status
