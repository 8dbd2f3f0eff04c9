"""What compiling took, learned step by step: peaks for the gate, seconds for the order of units.

Kept in the store as rows (tool, unit, architecture, bytes, CPU seconds), the latest last, and at most `_KEPT` of
them. Before a build they are written out with the table that ships (`costs.tsv`) as lines that the gate reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from builder.compile.costs import UnitCost, measured
from builder.store import Store

_KIND, _NAME = "learned", "steps"
_KEPT = 20_000
_HEAVY, _HEAVY_HOST = "cicc", "cc1plus"


@dataclass(frozen=True, slots=True)
class Key:
    """What a step is known by; `arch` is empty for host code."""

    tool: str
    unit: str
    arch: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step took: peak bytes and CPU seconds."""

    peak: int
    seconds: float


Costs = Mapping[Key, Cost]


def costs_in(log: Iterable[str], known: Costs) -> dict[Key, Cost]:
    """What the gate's log tells. A step that was ended, or failed, takes at least what it had taken by then."""
    found: dict[Key, Cost] = {}
    for line in log:
        step = _step(line)
        if step is not None:
            key, cost, whole = step
            found[key] = cost if whole else _at_least(cost, found.get(key) or known.get(key))
    return found


def merged(known: Costs, new: Costs) -> dict[Key, Cost]:
    """New ones replace what was known of the same step; the longest unseen go first when there are too many."""
    kept = {key: cost for key, cost in known.items() if key not in new}
    rows = [*kept.items(), *new.items()]
    return dict(rows[-_KEPT:])


def learn(store: Store, log: Iterable[str]) -> int:
    """Keep what a log tells for the next build; returns the number of steps. Damage in the store counts as absent."""
    lines_read = list(log)
    if not lines_read:
        return 0
    with store.lock(_KIND):
        known = learned(store)
        new = costs_in(lines_read, known)
        rows = [[k.tool, k.unit, k.arch, c.peak, round(c.seconds, 2)] for k, c in merged(known, new).items()]
        store.keep_record(_KIND, _NAME, {"version": 1, "steps": rows})
    return len(new)


def learned(store: Store) -> dict[Key, Cost]:
    """What earlier builds took, the latest last."""
    record = store.record(_KIND, _NAME) or {}
    rows = record.get("steps")
    return dict(_rows(rows)) if isinstance(rows, list) else {}


def lines(costs: Costs) -> str:
    """The gate's table: learned steps, then what ships of units, one a line, parted by tabs."""
    rows = [(key.tool, key.unit, key.arch, cost.peak, cost.seconds) for key, cost in costs.items()]
    table = [(tool, unit.unit, "", unit.peak, unit.seconds) for unit in measured() for tool in _tools(unit)]
    return "".join("\t".join(map(str, row)) + "\n" for row in [*rows, *table])


def _tools(cost: UnitCost) -> list[str]:
    """A unit of the table has its seconds as a whole; its peak is that of its heaviest step."""
    heavy = _HEAVY if cost.unit.endswith((".cu", ".cuda")) else _HEAVY_HOST
    return ["unit", heavy] if cost.peak else ["unit"]


def _rows(rows: list[object]) -> Iterator[tuple[Key, Cost]]:
    for row in rows:
        match row:
            case [str(tool), str(unit), str(arch), int(peak), (int() | float()) as seconds]:
                yield Key(tool, unit, arch), Cost(peak, float(seconds))


def _step(line: str) -> tuple[Key, Cost, bool] | None:
    """A line of the log, and whether the step came to its end; None for one cut short by a kill."""
    try:
        value = json.loads(line)
        key = Key(str(value["tool"]), str(value["unit"]), str(value["arch"]))
        cost = Cost(int(value["peak_bytes"]), float(value["cpu_seconds"]))
        return key, cost, value["exit"] == 0
    except (ValueError, KeyError, TypeError):
        return None


def _at_least(cost: Cost, known: Cost | None) -> Cost:
    return Cost(max(cost.peak, known.peak), max(cost.seconds, known.seconds)) if known else cost
