"""How long compile units take: a table measured on one core, for plans made before anything ran."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_name("costs.tsv")
_MODULE_SECONDS = 20.0
"""A FlashInfer module without a measurement: FP4 quantisation took 21 s, an XQA decode module 19 s."""


@dataclass(frozen=True, slots=True)
class UnitCost:
    """One compile unit, its seconds on one core, and the peak of its heaviest step in bytes (0: not known)."""

    component: str
    unit: str
    seconds: float
    peak: int = 0


@cache
def measured() -> tuple[UnitCost, ...]:
    """The table `costs.tsv`: component, unit, seconds and peak."""
    rows = csv.DictReader(_TABLE.read_text(encoding="utf-8").splitlines(), delimiter="\t")
    return tuple(
        UnitCost(row["component"], row["unit"], float(row["seconds"]), int(row.get("peak") or 0)) for row in rows
    )


def units_of(package: str, components: Sequence[str]) -> tuple[UnitCost, ...]:
    """The units that these components are compiled from, as far as they are known."""
    if package == "flashinfer-jit-cache":
        return tuple(_module(name) for name in components)
    return tuple(cost for cost in measured() if cost.component in components)


def _module(name: str) -> UnitCost:
    total = sum(cost.seconds for cost in measured() if cost.component == name)
    return UnitCost(name, name, total or _MODULE_SECONDS)
