"""A build's share of the compile units: `shard=2/4` is the second of four, the same on every machine.

Planning is pure: units and what each is known to cost in, shares out. Only the table that ships with the builder
is asked for costs, never what one machine has learned, or two machines would cut in different places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from builder.compile.costs import seconds_by_table
from builder.compile.gate.task import unit_of
from builder.compile.ninjafile import Unit
from builder.errors import UsageError

_FORM = re.compile(r"([0-9]{1,3})/([0-9]{1,3})")
_CUDA_SECONDS = 20.0
_HOST_SECONDS = 5.0
"""Of a unit of which the table has nothing, on one core."""


@dataclass(frozen=True, slots=True)
class Share:
    """The `number`th (from 1) of `count` shares."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Share:
        """Read `2/4`. Raises UsageError."""
        match = _FORM.fullmatch(text)
        number, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= count:
            raise UsageError(
                f"shard={text} is no share",
                expected="shard=NUMBER/COUNT, from 1/COUNT to COUNT/COUNT: shard=1/4, shard=2/4, shard=3/4, shard=4/4",
                remedy="run each share on a machine of its own, then the same build without shard= to link",
            )
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def seconds_of(unit: Unit) -> float:
    """What the unit costs on one core, by the table; a guess by its language where the table is silent."""
    known = seconds_by_table(unit_of(unit.target))
    guess = _CUDA_SECONDS if unit.source.endswith(".cu") else _HOST_SECONDS
    return guess if known is None else known


def shares(units: Sequence[Unit], count: int) -> tuple[tuple[Unit, ...], ...]:
    """`count` shares of about equal cost: the longest unit left goes to the share that has least so far.

    Each unit is in exactly one share.
    """
    known = {unit: seconds_of(unit) for unit in units}
    loads = [0.0] * count
    parts: list[list[Unit]] = [[] for _ in range(count)]
    for unit in sorted(known, key=lambda unit: (-known[unit], unit)):
        least = min(range(count), key=lambda number: (loads[number], number))
        loads[least] += known[unit]
        parts[least].append(unit)
    return tuple(tuple(part) for part in parts)


def share_of(units: Sequence[Unit], share: Share) -> tuple[Unit, ...]:
    """The units of that share, longest first."""
    return shares(units, share.count)[share.number - 1]
