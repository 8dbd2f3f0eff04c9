"""How long the units of aeon7 keep 20 cores: played through with the gate's own rules, in no time.

Each package's ninja hands out its longest units first; each unit is three steps, that ask for themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from builder.compile.costs import units_of
from builder.compile.gate.admission import Step, admits
from builder.compile.jobs import with_waiting
from builder.recipe import load

CORES, PARTS = 20, (0.05, 0.35, 0.6)
RECIPE = load("aeon7", Path(__file__).parents[2])
ORDER = count()


def units(name: str) -> list[float]:
    """Seconds, longest first."""
    costs = units_of(name, RECIPE.package(name).components)
    return sorted((cost.seconds for cost in costs for _ in range(cost.units)), reverse=True)


@dataclass
class Ninja:
    """Units that are left, how many are in hand, and when the first may start."""

    left: list[float]
    begins: float = 0.0
    hand: int = 0


@dataclass
class Unit:
    """One that is in hand: its next step, and the ninja that it is of."""

    ninja: Ninja
    seconds: float
    step: Step
    parts: list[float] = field(default_factory=lambda: list(PARTS))


def asks(unit: Unit, now: float, start: Callable[[float], float]) -> None:
    seconds = unit.parts.pop(0) * unit.seconds
    unit.step = Step(asked=now - start(unit.seconds) + next(ORDER) * 1e-6, expected=1, seconds=seconds)


def played(ninjas: list[Ninja], start: Callable[[float], float]) -> float:
    """When all are done; a step counts as having asked `start(seconds of its unit)` earlier."""
    now, there = 0.0, list[Unit]()
    while any(ninja.left for ninja in ninjas) or there:
        for ninja in ninjas:
            while ninja.left and ninja.begins <= now and ninja.hand < with_waiting(CORES):
                there.append(Unit(ninja, ninja.left.pop(0), Step(asked=0, expected=1)))
                asks(there[-1], now, start)
                ninja.hand += 1
        for unit in sorted(there, key=lambda unit: unit.step.asked):
            others = [other.step for other in there if other is not unit]
            if not unit.step.running and admits(unit.step, others, 1 << 40, CORES, now):
                unit.step.running, unit.step.start = True, now
        ends = [unit.step.start + unit.step.seconds for unit in there if unit.step.running]
        now = min([*ends, *(ninja.begins for ninja in ninjas if ninja.begins > now)])
        for unit in [unit for unit in there if unit.step.running and unit.step.start + unit.step.seconds <= now]:
            if unit.parts:
                asks(unit, now, start)
            else:
                there.remove(unit)
                unit.ninja.hand -= 1
    return now


def by_unit(seconds: float) -> float:
    return seconds


def test_the_longest_unit_is_not_held_up_between_its_steps() -> None:
    longest, *rest = units("flashinfer-jit-cache")
    assert played([Ninja([longest, *rest])], by_unit) == pytest.approx(longest)
    assert played([Ninja([longest, *rest])], lambda _: 0.0) > 1.1 * longest, "as it was: each step at the queue's end"


def test_two_packages_at_once_leave_no_core_idle_at_their_ends() -> None:
    names = ("flashinfer-jit-cache", "vllm")
    least = sum(sum(units(name)) for name in names) / CORES
    in_turn = sum(played([Ninja(units(name))], by_unit) for name in names)
    configured_later = [Ninja(units(names[0])), Ninja(units(names[1]), begins=60.0)]
    assert played(configured_later, by_unit) < 1.02 * least < 1.1 * least < in_turn
