"""Ninja's output as facts: units done, units failed and what each failure said.

Ninja prints `[done/total] …` a unit and `FAILED: outputs` with the unit's own output; everything
after the first failure drowns it, so the failure is kept as it passes by.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from builder.compile.forecast import Forecast
from builder.compile.gate.task import unit_of
from builder.errors import CompileError
from builder.report import Report, size

_STATUS = re.compile(r"\[(\d+)/(\d+)\]\s+(.*)")
_NAMED = re.compile(r"SPARK_UNIT=(\S+) ")
_FAILED = re.compile(r"FAILED:\s+(?:\[code=-?\d+\]\s+)?(\S+)")
_KILLED = re.compile(
    r"\bKilled\b|signal 9|\[code=137\]|(?:exit|code|status) 137|out of memory|memory exhausted"
    r"|Cannot allocate memory|what\(\):\s+std::bad_alloc|Memory allocation failure",
    re.IGNORECASE,
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_ALONE = re.compile(r"spark-gate: (\S+) of (\S+) was killed for memory at (\d+) bytes, running alone")
_ERROR = re.compile(
    r"\berror\b|\bfatal\b|Killed|undefined reference|memory exhausted|cate memory|bad_alloc|allocation fail|No space",
    re.IGNORECASE,
)
_WRONG = ("CMake Error", "RuntimeError:", "ModuleNotFoundError:", "error: ", "spark-gate: no code")
_KEPT = 400
_KEPT_CONFIGURE = 12


@dataclass(slots=True)
class UnitWatch:
    """Follows a build line by line; `check_line` may stop it by raising."""

    report: Report
    what: str
    check_line: Callable[[str], None] = lambda _line: None
    forecast: Forecast | None = None
    done: int = 0
    total: int = 0
    failures: list[tuple[str, list[str]]] = field(default_factory=list)
    configure: list[str] = field(default_factory=list)
    _in_failure: bool = False

    def __call__(self, line: str) -> None:
        """Take one line of the build's output."""
        self.check_line(line)
        if (self.configure or line.startswith(_WRONG)) and len(self.configure) < _KEPT_CONFIGURE:
            self.configure.append(line)
        status = _STATUS.match(line)
        if status:
            self._unit(int(status[1]), int(status[2]), status[3])
            return
        failed = _FAILED.match(line)
        if failed:
            self.failures.append((failed[1], [line]))
            self._in_failure = True
        elif line.startswith("ninja: "):
            self._in_failure = False
        elif self._in_failure and len(self.failures[-1][1]) < _KEPT:
            self.failures[-1][1].append(line)

    def _unit(self, done: int, total: int, text: str) -> None:
        self._in_failure = False
        self.done, self.total = done, total
        shown = f"{self.what}: unit {done} of {total}, {_label(text)}"
        self.report.progress(done, total, shown, self._left(_source(text)), of=self.what)

    def _left(self, unit: str) -> float | None:
        """Seconds left of this package's units, as far as can be said when that one is done."""
        if self.forecast is None:
            return None
        self.forecast.finish(unit)
        return self.forecast.left(self.total - self.done, time.time()) if self.done < self.total else None

    def error(self, log: str) -> CompileError:
        """The first failed unit with its own words; memory is said to be memory."""
        if not self.failures:
            words = "\n      ".join(["", *filter(None, self.configure)])
            return CompileError(
                f"{self.what}: the build stopped, and no unit failed",
                where="configure or packaging",
                expected=f"it runs through; it said: {words}" if words else "it runs through",
                remedy=f"the full log is {log}",
            )
        unit, lines = self.failures[0]
        said = [line for line in lines if _ERROR.search(line)][:6] or lines[-6:]
        more = f" ({len(self.failures)} units failed)" if len(self.failures) > 1 else ""
        alone = next((match for line in lines if (match := _ALONE.search(line))), None)
        if alone:
            return _too_large(self.what, alone, unit, more)
        if any(_KILLED.search(line) for line in lines):
            return _killed(self.what, unit, said, more)
        if any(_FULL.search(line) for line in lines):
            return _full(self.what, unit, said, more)
        return CompileError(
            f"{self.what}: {unit} failed{more}",
            where=unit,
            expected="it compiles; it said: " + "\n      ".join(["", *said]),
            remedy=f"the full log is {log}",
        )


def _killed(what: str, unit: str, said: list[str], more: str) -> CompileError:
    return CompileError(
        f"{what}: the compiler of {unit} was killed, most likely for memory{more}",
        where=unit,
        expected="enough memory for this unit; it said: " + " | ".join(said),
        remedy="run again with fewer jobs (jobs=1): finished units are kept",
    )


def _full(what: str, unit: str, said: list[str], more: str) -> CompileError:
    return CompileError(
        f"{what}: the disk is full, where {unit} was compiled{more}",
        where=unit,
        expected="room for objects, and for compilers in TMPDIR; it said: " + " | ".join(said),
        remedy="free some space (df says where), or set TMPDIR to a disk that has some, and run again: "
        "finished units are kept",
    )


def _too_large(what: str, alone: re.Match[str], unit: str, more: str) -> CompileError:
    tool, source, peak = alone.groups()
    return CompileError(
        f"{what}: {tool} of {source} was killed for memory at {size(int(peak))}, though it ran alone{more}",
        where=unit,
        expected="a machine with more memory than this one step takes",
        remedy="stop what else uses memory, or raise its limit, and run again: finished units are kept",
    )


def _source(text: str) -> str:
    """The unit by the gate's name for it: `csrc/x.cu` of `Building CUDA object CMakeFiles/_C.dir/csrc/x.cu.o`.

    Without a description ninja shows the command, which begins with the object's name.
    """
    named = _NAMED.match(text)
    return unit_of(named[1] if named else text)


def _label(text: str) -> str:
    named = _NAMED.match(text)
    return unit_of(named[1]) if named else _short(text)


def _short(text: str) -> str:
    return text.rsplit("/", 1)[-1].removesuffix(".o")
