"""How long compile units take: a table measured on one core, for plans made before anything ran."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builder.compile.gate.task import kin_of

_TABLE = Path(__file__).with_name("costs.tsv")
_MODULE_SECONDS = 20.0
"""A FlashInfer module of which the table has nothing, not even how many units it has."""


@dataclass(frozen=True, slots=True)
class UnitCost:
    """One compile unit, its seconds on one core, and the peak of its heaviest step in bytes (0: not known).

    `unit` is the name that the gate has for it: `csrc/x.cu` of vLLM, `module/x.cuda` of FlashInfer. A name with `*`
    (`module/*.cuda`) stands for the `units` of a module that nobody measured, with what each is taken to last.
    """

    component: str
    unit: str
    seconds: float
    peak: int = 0
    units: int = 1


@cache
def measured() -> tuple[UnitCost, ...]:
    """The table `costs.tsv`: component, unit, seconds, peak, and how many units it stands for where not one."""
    rows = csv.DictReader(_TABLE.read_text(encoding="utf-8").splitlines(), delimiter="\t")
    return tuple(
        UnitCost(
            component=row["component"],
            unit=row["unit"],
            seconds=float(row["seconds"]),
            peak=int(row["peak"] or 0),
            units=int(row["units"] or 1),
        )
        for row in rows
    )


def seconds_by_table(unit: str) -> float | None:
    """What the table says of a unit, by the gate's name for it; None where it is silent."""
    return _seconds().get(unit, _seconds().get(kin_of(unit)))


def units_of(package: str, components: Sequence[str]) -> tuple[UnitCost, ...]:
    """The units that these components are compiled from, as far as they are known."""
    known = tuple(cost for cost in measured() if cost.component in components)
    if package != "flashinfer-jit-cache":
        return known
    found = {cost.component for cost in known}
    return known + tuple(UnitCost(name, name, _MODULE_SECONDS) for name in components if name not in found)


@cache
def _seconds() -> Mapping[str, float]:
    return {cost.unit: cost.seconds for cost in measured()}
