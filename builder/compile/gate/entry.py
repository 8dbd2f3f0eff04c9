"""What a stub calls: a compiler's program through the gate, or ninja with its build file put in order."""

from __future__ import annotations

import os

from .preprocess import PREPROCESSED, preprocess
from .say import say
from .step import DEVICE, FOLDER, LEARNED, UNIT, Gate, code_of
from .task import Task


def main(argv: list[str]) -> int:
    """`TOOL PROGRAM ARGUMENTS…`: returns the exit code that the program had."""
    tool, real, *args = argv
    if tool == "ninja":
        from .order import put_in_order, refusal

        device = os.environ.get(DEVICE, "")
        why = refusal(args, device) if device else ""
        if why:
            say(why)
            return 1
        put_in_order(args, os.environ.get(LEARNED, ""))
        os.execv(real, [real, *args])  # noqa: S606
    task = Task(tool, real, args, os.environ.get(UNIT, ""))
    if tool == "cc1plus" and "-E" in args:
        return code_of(preprocess(task, os.environ.get(PREPROCESSED, "")))
    try:
        if not os.environ.get(FOLDER) or not task.input:
            raise OSError
        gate = Gate(task, dict(os.environ))
        gate.join()
    except (OSError, ValueError):
        os.execv(real, [real, *args])  # noqa: S606
    return code_of(gate.run())
