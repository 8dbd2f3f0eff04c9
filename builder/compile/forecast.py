"""How long a package's units still take: by what they are known to cost, and how those that really compiled went.

What compiled is told by the gate's log of steps as it grows; a unit from the compiler cache has none there, and says
nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.compile.timeline import Step, steps_in


@dataclass(slots=True)
class Forecast:
    """Of one package: `expected` is CPU seconds by unit, as measured before, `log` the gate's, of all packages."""

    expected: Mapping[str, float]
    log: Path
    _read: int = 0
    _finished: set[str] = field(default_factory=set)
    _took: dict[str, float] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)

    def finish(self, unit: str) -> None:
        """Take note of a unit that is done, compiled or from the cache."""
        if unit in self.expected:
            self._finished.add(unit)

    def left(self, commands: int, now: float) -> float | None:
        """Seconds until `commands` more of ninja's are done; `now` is seconds since 1970.

        None while no unit that compiled is done. What is left goes at the pace so far, and lasts at least as long as
        the longest unit that has begun. A build that goes on has fewer commands left than units that were not
        seen yet: these then count in part.
        """
        self._note_steps()
        compiled = self._finished & self._took.keys()
        taken, known = _sum(self._took, compiled), _sum(self.expected, compiled)
        if not taken or not known:
            return None
        costs = {unit: cost * taken / known for unit, cost in self.expected.items() if unit not in self._finished}
        rest = sum(max(0.0, cost - self._took.get(unit, 0.0)) for unit, cost in costs.items())
        pace = sum(self._took.values()) / max(1.0, now - min(self._began.values()))
        begun = (cost - (now - self._began[unit]) for unit, cost in costs.items() if unit in self._began)
        return max(rest / pace * min(1.0, commands / max(1, len(costs))), *begun, 0.0)

    def _note_steps(self) -> None:
        for step in self._new_steps():
            if step.unit in self.expected:
                self._took[step.unit] = self._took.get(step.unit, 0.0) + step.cpu_seconds
                self._began[step.unit] = min(step.start, self._began.get(step.unit, step.start))

    def _new_steps(self) -> tuple[Step, ...]:
        """The steps that ended since the last look."""
        try:
            with self.log.open("rb") as stream:
                stream.seek(self._read)
                whole = stream.read().rpartition(b"\n")[0]
        except OSError:
            return ()
        self._read += len(whole) + 1 if whole else 0
        return steps_in(whole.decode(errors="replace"))


def _sum(costs: Mapping[str, float], units: set[str]) -> float:
    return sum(costs[unit] for unit in units)
