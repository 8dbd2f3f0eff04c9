"""Which unit ran when, on which slot, with how much memory, hit or miss: pure, from two logs.

The gate logs every step of a compiler (`steps.jsonl`), ninja every command that it finished. A unit without
steps came from the compiler cache: no compiler ran for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Literal, get_args

from builder.report import duration, size

State = Literal["compiled", "hit", "link", "failed"]
_SLACK = 0.25
"""Seconds that two clocks may differ: ninja takes a command's start from the file system."""
_TRIAL = re.compile(r"cmTC_|CMakeScratch|CMakeTmp|CompilerId")
"""Names that CMake gives to what it compiles to learn about a compiler."""
_PREPROCESSED = re.compile(r'"cpu_seconds": ([0-9.]+)\}$')


@dataclass(frozen=True, slots=True)
class Step:
    """One run of cicc, ptxas, cudafe++ or cc1plus. Times are seconds since 1970, sizes bytes."""

    unit: str
    tool: str
    asked: float
    start: float
    end: float
    cpu_seconds: float
    peak_bytes: int
    arch: str = ""
    object: str = ""
    attempt: int = 1
    killed: str = ""

    @property
    def waited(self) -> float:
        """Seconds between asking for a core and memory and getting them."""
        return max(0.0, self.start - self.asked)


@dataclass(frozen=True, slots=True)
class Made:
    """One finished command of ninja, with the package and the source that it belongs to."""

    package: str
    target: str
    unit: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Run:
    """One unit or link as it ran; `slot` counts from 1."""

    package: str
    target: str
    unit: str
    state: State
    start: float
    end: float
    steps: tuple[Step, ...] = ()
    slot: int = 0

    @property
    def seconds(self) -> float:
        """From start to end."""
        return self.end - self.start

    @property
    def cpu_seconds(self) -> float:
        """Of all steps."""
        return sum(step.cpu_seconds for step in self.steps)

    @property
    def waited(self) -> float:
        """Seconds that its steps waited for memory or a core."""
        return sum(step.waited for step in self.steps)

    @property
    def worked(self) -> float:
        """Seconds for which it did not wait."""
        return self.seconds - self.waited

    @property
    def peak(self) -> int:
        """Bytes of its largest step."""
        return max((step.peak_bytes for step in self.steps), default=0)

    @property
    def kills(self) -> int:
        """Steps that were ended for memory and tried again."""
        return sum(1 for step in self.steps if step.killed)


@dataclass(frozen=True, slots=True)
class Timeline:
    """All runs of a build by their start, and memory in use as (time, bytes) at each change."""

    runs: tuple[Run, ...]
    memory: tuple[tuple[float, int], ...]
    preprocessing: float = 0.0
    """CPU seconds of preprocessors, of hits too."""

    @property
    def start(self) -> float:
        """When the first run began."""
        return min((run.start for run in self.runs), default=0.0)

    @property
    def wall(self) -> float:
        """Seconds from the first start to the last end."""
        return max((run.end for run in self.runs), default=0.0) - self.start

    @property
    def slots(self) -> int:
        """The most that ran at once."""
        return max((run.slot for run in self.runs), default=0)

    @property
    def peak(self) -> int:
        """Bytes: the most that the peaks of the steps at one moment add up to."""
        return max((used for _, used in self.memory), default=0)


def steps_in(text: str) -> tuple[Step, ...]:
    """The steps of a log of JSON lines; a line cut short by a kill, or of another form, counts for nothing."""
    return tuple(step for line in text.splitlines() if (step := _step(line)) is not None)


def made_in(text: str) -> tuple[Made, ...]:
    """The commands of a log of JSON lines, as `made_line` writes them."""
    return tuple(made for line in text.splitlines() if (made := _made(line)) is not None)


def made_line(made: Made) -> str:
    """One line of the log."""
    return json.dumps(asdict(made), sort_keys=True) + "\n"


def preprocessing_in(text: str) -> float:
    """CPU seconds in a log of JSON lines; a line cut short by a kill counts for nothing."""
    return sum(float(found[1]) for found in map(_PREPROCESSED.search, text.splitlines()) if found)


def timeline(made: Sequence[Made], steps: Sequence[Step], preprocessing: float = 0.0) -> Timeline:
    """Steps put to the runs that they belong to, and runs put on slots."""
    left = list(steps)
    runs = [_run(each, left) for each in sorted(made, key=lambda each: each.start)]
    return Timeline(tuple(_on_slots([*runs, *_unfinished(left)])), tuple(_memory(steps)), preprocessing)


def counts(found: Timeline) -> dict[str, Any]:
    """Units compiled and taken from the cache, the peak, and what was ended for memory: for the summary."""
    of = {state: sum(1 for run in found.runs if run.state == state) for state in get_args(State)}
    return {
        "compiled": of["compiled"],
        "hits": of["hit"],
        "failed": of["failed"],
        "links": of["link"],
        "cpu_seconds": round(sum(run.cpu_seconds for run in found.runs), 1),
        "preprocessing_seconds": round(found.preprocessing, 1),
        "waited_seconds": round(sum(run.waited for run in found.runs), 1),
        "peak_bytes": max((run.peak for run in found.runs), default=0),
        "killed": sorted(run.unit for run in found.runs if run.kills),
    }


def critical(found: Timeline) -> tuple[Run, ...]:
    """The chain that ends last: before each run, the one that ended last before it could start; first one first."""
    chain: list[Run] = []
    left = list(found.runs)
    while left:
        last = max(left, key=lambda run: run.end)
        chain.append(last)
        left = [run for run in left if run.end <= last.start + _SLACK and run is not last]
    return tuple(reversed(chain))


def advice(found: Timeline, cores: int) -> str:
    """One sentence: what would shorten this build most, on so many cores."""
    units = [run for run in found.runs if run.state == "compiled"]
    if not units:
        return "No compiler ran: what is left is configuring, preprocessing for the cache, linking and packing."
    longest, last = max(units, key=lambda run: run.worked), max(units, key=lambda run: run.end)
    room = cores * found.wall
    busy, starved = _use(found, cores)
    if longest.worked >= 0.8 * found.wall and cores > 1:
        return f"It is as long as {longest.unit} alone ({duration(longest.worked)}): cut that unit in two."
    if starved > 0.1 * room:
        return f"Units waited {duration(starved)} for memory; the largest took {size(longest_peak(units))}."
    if room - busy > 0.15 * room:
        late = duration(last.start - found.start)
        return f"Cores stood idle for {duration(room - busy)}: {last.unit} began after {late} and ended last."
    return "All cores were busy: only more of them, or fewer units, would shorten it."


def _use(found: Timeline, cores: int) -> tuple[float, float]:
    """Core seconds for which there were units, and those that units waited while a core was free: for memory."""
    changes = [change for run in found.runs for change in ((run.start, 1, 0), (run.end, -1, 0))]
    steps = [step for run in found.runs for step in run.steps]
    changes += [change for step in steps for change in ((step.asked, 0, 1), (step.start, 0, -1))]
    busy, starved, there, waiting = 0.0, 0.0, 0, 0
    for (when, runs, waits), (then, *_) in pairwise(sorted(changes)):
        there, waiting = there + runs, waiting + waits
        busy += (then - when) * min(there, cores)
        starved += (then - when) * min(waiting, max(0, cores - there + waiting))
    return busy, starved


def longest_peak(runs: Iterable[Run]) -> int:
    """Bytes of the largest unit."""
    return max((run.peak for run in runs), default=0)


def trace_events(found: Timeline) -> dict[str, Any]:
    """The document that Perfetto and chrome://tracing open: a track a slot, steps inside units, memory as a counter."""
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(found), *_events(found), *_counter(found)]}


def _names(found: Timeline) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "build"}}
    lanes = {(run.slot, lane) for run in found.runs for lane, _ in _lanes(run.steps)}
    for slot, lane in sorted(lanes | {(run.slot, 0) for run in found.runs}):
        name = f"slot {slot}" if lane == 0 else f"slot {slot}, beside it {lane}"
        yield {"ph": "M", "pid": 1, "tid": _track(slot, lane), "name": "thread_name", "args": {"name": name}}


def _events(found: Timeline) -> Iterator[dict[str, Any]]:
    for run in found.runs:
        facts = {"package": run.package, "target": run.target, "state": run.state, "waited seconds": run.waited}
        yield _event(run.unit, run.state, (run.start, run.end), _track(run.slot, 0), facts, found)
        for lane, step in _lanes(run.steps):
            facts = {"arch": step.arch, "cpu seconds": step.cpu_seconds, "peak bytes": step.peak_bytes}
            facts |= {"waited seconds": step.waited, "attempt": step.attempt, "ended by": step.killed}
            inside = (max(step.start, run.start), min(step.end, run.end)) if lane == 0 else (step.start, step.end)
            yield _event(step.tool, "step", inside, _track(run.slot, lane), facts, found)


def _event(
    name: str, kind: str, when: tuple[float, float], track: int, facts: Mapping[str, object], found: Timeline
) -> dict[str, Any]:
    start, length = round((when[0] - found.start) * 1e6), round((when[1] - when[0]) * 1e6)
    event = {"ph": "X", "pid": 1, "tid": track, "name": name, "cat": kind, "ts": start, "dur": max(0, length)}
    return event | {"args": dict(facts)}


def _counter(found: Timeline) -> Iterator[dict[str, Any]]:
    for when, used in found.memory:
        at = round((when - found.start) * 1e6)
        yield {"ph": "C", "pid": 1, "name": "memory of compilers", "ts": at, "args": {"bytes": used}}


def _track(slot: int, lane: int) -> int:
    return slot * 100 + lane


def _lanes(steps: Iterable[Step]) -> Iterator[tuple[int, Step]]:
    """Steps that ran at once get lanes of their own: events of one track must not cross."""
    ends: list[float] = []
    for step in sorted(steps, key=lambda step: step.start):
        lane = next((i for i, end in enumerate(ends) if end <= step.start), len(ends))
        ends[lane : lane + 1] = [step.end]
        yield lane, step


def _step(line: str) -> Step | None:
    try:
        raw = json.loads(line)
        return Step(
            unit=str(raw["unit"]),
            tool=str(raw["tool"]),
            asked=float(raw["asked"]),
            start=float(raw["start"]),
            end=float(raw["end"]),
            cpu_seconds=float(raw["cpu_seconds"]),
            peak_bytes=int(raw["peak_bytes"]),
            arch=str(raw.get("arch", "")),
            object=str(raw.get("object", "")),
            attempt=int(raw.get("attempt", 1)),
            killed=str(raw.get("killed", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _made(line: str) -> Made | None:
    try:
        return Made(**json.loads(line))
    except (ValueError, TypeError):
        return None


def _run(made: Made, left: list[Step]) -> Run:
    """The run of one command; takes its steps out of `left`."""
    own = [step for step in left if _belongs(step, made)]
    left[:] = [step for step in left if step not in own]
    state: State = "link" if made.target.endswith(".so") else "compiled" if own else "hit"
    return Run(made.package, made.target, made.unit, state, made.start, made.end, tuple(own))


def _belongs(step: Step, made: Made) -> bool:
    during = made.start - _SLACK <= step.start and step.end <= made.end + _SLACK
    named = made.target.endswith(step.object) if step.object else _same(step.unit, made.unit)
    return during and named


def _same(one: str, other: str) -> bool:
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _unfinished(left: Sequence[Step]) -> Iterator[Run]:
    """Units that never came to an end: steps without a finished command, but for what configure tries out."""
    groups: dict[str, list[Step]] = {}
    for step in left:
        name = step.object or step.unit
        if not _TRIAL.search(name):
            groups.setdefault(name, []).append(step)
    for target, steps in groups.items():
        start, end = min(step.start for step in steps), max(step.end for step in steps)
        yield Run("", target, steps[0].unit, "failed", start, end, tuple(steps))


def _on_slots(runs: Iterable[Run]) -> Iterator[Run]:
    ends: list[float] = []
    for run in sorted(runs, key=lambda run: (run.start, run.target)):
        slot = next((i for i, end in enumerate(ends) if end <= run.start + _SLACK / 10), len(ends))
        ends[slot : slot + 1] = [run.end]
        yield replace(run, slot=slot + 1)


def _memory(steps: Iterable[Step]) -> Iterator[tuple[float, int]]:
    changes = [change for step in steps for change in ((step.start, step.peak_bytes), (step.end, -step.peak_bytes))]
    used = 0
    for when, change in sorted(changes):
        used += change
        yield when, used
