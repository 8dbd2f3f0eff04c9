"""What one run of a compiler's program works on, and what to expect of it."""

from __future__ import annotations

import os
from itertools import pairwise

from .admission import MB, UNKNOWN_SECONDS

_ENDINGS = {
    "cicc": (".ii", ".cu", ".gpu"),
    "cudafe++": (".ii", ".cu"),
    "ptxas": (".ptx",),
    "cc1plus": (".cc", ".cpp", ".cxx", ".C", ".ii", ".cu"),
}
_NAMES = {"-o", "-dumpbase", "--orig_src_file_name", "--orig_src_path_name"}
"""Options whose value names a file that is not read."""

_GUESS = {"cicc": (600, 180), "cudafe++": (150, 135), "ptxas": (100, 45), "cc1plus": (100, 130)}
"""A step that nobody has measured: MB, and bytes for each byte of its input, by what vLLM's units take."""

_PLAIN_CXX = 1500
"""MB of a C++ source, whose size says nothing of the headers that it takes in."""


class Task:
    """What one run of a program works on, read from its arguments and from the unit that its build names."""

    __slots__ = ("arch", "args", "input", "object", "real", "tool", "unit")

    def __init__(self, tool: str, real: str, args: list[str], named: str = "") -> None:
        self.tool, self.real, self.args = tool, real, args
        self.input = _input_of(tool, args)
        self.arch = _arch_of(tool, args)
        self.object = named
        self.unit = unit_of(named) if named else _unit_from(tool, args, self.input)


def unit_of(name: str) -> str:
    """`csrc/x.cu` of the object `CMakeFiles/_C.dir/csrc/x.cu.o`, `module/x.cuda` of `/…/module/x.cuda.o`."""
    inside = name.rpartition(".dir/")[2] if ".dir/" in name else "/".join(name.split("/")[-2:])
    return inside.removesuffix(".o")


def kin_of(unit: str) -> str:
    """The name that stands for the units of its module that nobody measured: `module/*.cuda`, `module/*` for C++."""
    return f"{unit.rpartition('/')[0]}/*{'.cuda' if unit.endswith('.cuda') else ''}"


def _input_of(tool: str, args: list[str]) -> str:
    """The file that is compiled; empty when the run compiles nothing (`--version`)."""
    endings, before = _ENDINGS.get(tool, ()), ["", *args]
    files = [arg for flag, arg in zip(before, args, strict=False) if arg.endswith(endings) and flag not in _NAMES]
    named = [file for file in files if os.path.isfile(file)]  # noqa: PTH113
    return named[-1] if named else ""


def _arch_of(tool: str, args: list[str]) -> str:
    if tool not in {"cicc", "ptxas"}:
        return ""
    for flag, value in pairwise([*args, ""]):
        found = value if flag in {"-arch", "--gpu-name"} else flag.partition("=")[2] if "arch=" in flag else ""
        if found:
            return found.replace("compute_", "sm_")
    return ""


def _unit_from(tool: str, args: list[str], given: str) -> str:
    """The source by the arguments alone, for a build that names no units."""
    if "--orig_src_path_name" in args[:-1]:
        return args[args.index("--orig_src_path_name") + 1]
    base = os.path.basename(given)  # noqa: PTH119
    if tool == "cc1plus" and "-dumpbase" in args[:-1]:
        return given if base.endswith((".cc", ".cxx")) else args[args.index("-dumpbase") + 1].removesuffix(".cpp")
    return base.split(".")[0] + ".cu"


def guess(tool: str, name: str, size: int) -> int:
    """Bytes to expect of a step that nobody has measured, by its preprocessed input's name and size."""
    fixed, factor = _GUESS.get(tool, (1000, 0))
    if tool == "cc1plus" and not name.endswith((".ii", ".cudafe1.cpp")):
        fixed, factor = _PLAIN_CXX, 0
    return fixed * MB + factor * size


def expectation(task: Task, learned: str) -> tuple[int, float]:
    """Bytes and seconds to expect, from lines of `tool unit arch bytes seconds` parted by tabs."""
    near = f"{task.tool}\t{task.unit}"
    row = _row(learned, f"{near}\t{task.arch}", near)
    if row:
        peak, seconds = row[3:5]
        return int(peak) * 21 // 20, float(seconds)
    size = os.stat(task.input).st_size if task.input else 0  # noqa: PTH116
    return guess(task.tool, task.input, size), UNKNOWN_SECONDS


def head_start(task: Task, learned: str, seconds: float) -> float:
    """Seconds by which a step counts as having asked earlier: what its unit takes, else what itself does.

    So the longest unit is the first of those that came together, whichever ninja they are of, and is not held up
    between its steps; and as it is bounded, none waits for ever.
    """
    row = _row(learned, f"unit\t{task.unit}", f"unit\t{kin_of(task.unit)}")
    if not row:
        return seconds
    _, whole = row[3:5]
    return float(whole)


def _row(learned: str, *heads: str) -> list[str]:
    """The five fields of the first line that begins with the first head that one begins with; none without one."""
    text = f"\n{learned}"
    for head in heads:
        at = text.find(f"\n{head}\t")
        if at >= 0:
            return text[at + 1 :].partition("\n")[0].split("\t")
    return []
