"""Writes the table of what units take (`builder/compile/costs.tsv`) anew, from the logs of builds.

    python -m benchmarks.costs out/aeon7/logs/*/steps.jsonl > costs.tsv

Seconds are the CPU seconds of a unit's steps, peak the bytes of its heaviest. Units of which the logs hold no whole
compilation keep their row; one that stands for units of a module that nobody measured has as many less as the logs
hold.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from builder.compile.costs import UnitCost, measured
from builder.compile.gate.task import kin_of

_TARGET = re.compile(r"CMakeFiles/([^/]+)\.dir/")
_HEAVY = {".cu": "ptxas", ".cuda": "ptxas", ".cpp": "cc1plus", ".cc": "cc1plus"}
"""A unit without this step came from the cache, in parts at least."""


def main(argv: list[str]) -> None:
    """Print the table, the longest first."""
    found = dict(_units(json.loads(line) for name in argv for line in Path(name).read_text().splitlines()))
    known = {cost.unit: cost for cost in measured()}
    fresh = Counter(kin_of(unit) for unit in found.keys() - known.keys())
    kept = {
        unit: replace(cost, units=cost.units - fresh[unit]) for unit, cost in known.items() if cost.units > fresh[unit]
    }
    writer = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    writer.writerow(["component", "unit", "seconds", "peak", "units"])
    for cost in sorted({**kept, **found}.values(), key=lambda cost: (-cost.seconds, cost.unit)):
        row = [cost.component, cost.unit, round(cost.seconds, 1), cost.peak]
        writer.writerow([*row, cost.units] if cost.units > 1 else row)


def _units(steps: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, UnitCost]]:
    """Each unit that was compiled whole, by its latest compilation: steps of one object, none of them ended early."""
    latest: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = defaultdict(dict)
    for step in (step for step in steps if not step["unit"].startswith("CMake")):  # its trials of the compilers
        latest[step["unit"]][step["tool"], step["arch"]] = step
    for unit, done in latest.items():
        tools = {tool for tool, _ in done}
        if _HEAVY.get(Path(unit).suffix, "") in tools and all(step["exit"] == 0 for step in done.values()):
            target = _TARGET.search(next(iter(done.values()))["object"])
            seconds = sum(step["cpu_seconds"] for step in done.values())
            peak = max(int(step["peak_bytes"]) for step in done.values())
            yield unit, UnitCost(target[1] if target else unit.partition("/")[0], unit, seconds, peak)


if __name__ == "__main__":
    main(sys.argv[1:])
