"""Writes what a build did, from its two logs: a trace for Perfetto, and a page with the picture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from builder.compile.governed import STEPS, TEXTS
from builder.compile.jobs import cores
from builder.compile.ninjafile import edges_in, links_in, reader, units_in
from builder.compile.timeline import (
    Made,
    Run,
    Timeline,
    advice,
    counts,
    critical,
    made_in,
    made_line,
    preprocessing_in,
    steps_in,
    timeline,
    trace_events,
)
from builder.report import duration, size
from builder.store import atomic_write

MADE, TRACE, PAGE = "made.jsonl", "trace.json", "build.html"
_WIDTH, _ROW, _LEFT, _MEMORY = 1000, 22, 60, 120
_LISTED = 25


@dataclass(frozen=True, slots=True)
class Traced:
    """The files that were written, and the counts of units for the summary."""

    trace: Path
    page: Path
    units: dict[str, Any]


@contextmanager
def recorded(build: Path, package: str, root: Path, logs: Path) -> Iterator[None]:
    """Keep in `logs` what ninja finishes meanwhile in the folder `build`, also when it fails.

    `root` is the folder that sources are named from. What an earlier build finished is told by its time: the log's
    length cannot tell, because ninja writes it anew now and then.
    """
    log = build / ".ninja_log"
    before = {(edge.target, edge.start) for edge in edges_in(_text(log))}
    try:
        yield
    finally:
        text, read = _text(build / "build.ninja"), reader(build)
        names = {unit.target: unit.source for unit in units_in(text, str(root), read)}
        names |= {link.target: Path(link.target).name for link in links_in(text, read)}
        new = [edge for edge in edges_in(_text(log)) if (edge.target, edge.start) not in before]
        made = [Made(package, e.target, names[e.target], e.start, e.end) for e in new if e.target in names]
        if made:
            logs.mkdir(parents=True, exist_ok=True)
            with (logs / MADE).open("ab", buffering=0) as sink:  # one write: another package's lines stay whole too
                sink.write("".join(map(made_line, made)).encode())


def write_trace(logs: Path, title: str) -> Traced | None:
    """Write `trace.json` and `build.html` beside the logs; None when there was nothing to compile or link."""
    found = _found(logs)
    if not found.runs:
        return None
    atomic_write(logs / TRACE, json.dumps(trace_events(found)).encode())
    atomic_write(logs / PAGE, render(found, title).encode())
    return traced(logs)


def traced(logs: Path) -> Traced | None:
    """What was written there before, if anything was."""
    places = logs / TRACE, logs / PAGE
    return Traced(*places, counts(_found(logs))) if all(place.is_file() for place in places) else None


def _found(logs: Path) -> Timeline:
    made, steps = made_in(_text(logs / MADE)), steps_in(_text(logs / STEPS))
    return timeline(made, steps, preprocessing_in(_text(logs / TEXTS)))


def render(found: Timeline, title: str) -> str:
    """The page: one file that needs nothing else."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters |= {"size": size, "duration": duration}
    template = environment.from_string((files("builder.compile") / "build.html.j2").read_text(encoding="utf-8"))
    slowest, chain = sorted(found.runs, key=lambda run: -run.seconds), critical(found)
    return template.render(
        title=title,
        found=found,
        counts=counts(found),
        advice=advice(found, cores()),
        chain=chain,
        slowest=slowest[:_LISTED],
        bars=[_bar(run, found, on_chain=run in chain) for run in found.runs],
        memory=_curve(found),
        ticks=list(_ticks(found)),
        rows=found.slots,
        width=_WIDTH,
        left=_LEFT,
        row=_ROW,
        high=_MEMORY,
    )


def _bar(run: Run, found: Timeline, *, on_chain: bool) -> dict[str, Any]:
    return {
        "x": round(_LEFT + _x(run.start, found), 2),
        "y": (run.slot - 1) * _ROW,
        "width": round(max(0.6, run.seconds * _WIDTH / (found.wall or 1)), 2),
        "run": run,
        "critical": on_chain,
    }


def _x(when: float, found: Timeline) -> float:
    return (when - found.start) * _WIDTH / (found.wall or 1)


def _curve(found: Timeline) -> str:
    """The points of a polygon: memory over time, in steps."""
    points, level = [f"{_LEFT},{_MEMORY}"], 0.0
    for when, used in found.memory:
        x, above = round(_LEFT + _x(when, found), 1), used * _MEMORY / (found.peak or 1)
        points += [f"{x},{_MEMORY - level:.1f}", f"{x},{_MEMORY - above:.1f}"]
        level = above
    return " ".join([*points, f"{_LEFT + _WIDTH},{_MEMORY}"])


def _ticks(found: Timeline) -> Iterator[tuple[float, str]]:
    """About eight marks of the time axis, at round seconds."""
    steps = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
    step = next((step for step in steps if found.wall / step <= 8), 14400)
    for number in range(int(found.wall // step) + 1):
        yield _LEFT + number * step * _WIDTH / (found.wall or 1), duration(number * step) if number else "0"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
