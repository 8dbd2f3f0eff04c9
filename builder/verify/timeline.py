"""A build's timeline in the report: the hook for whoever measures builds, as data that other tools read as well.

The data is a trace in Chrome's Trace Event Format, a JSON document that Perfetto opens too. Of it, this takes:

- complete events, `{"ph": "X", "tid": track, "name": what, "cat": state, "ts": begin, "dur": length}`, in µs; one that
  lies within an earlier one of its track, or is of category `step`, is a part of it and not drawn. The states
  `compiled`, `hit`, `link` and `failed` have colours of their own; others are drawn plain.
- the names of tracks, `{"ph": "M", "name": "thread_name", "tid": track, "args": {"name": "slot 1"}}`.

`verify … html=report.html timeline=trace.json` draws it below the objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.errors import UsageError

STATES = {"compiled": "compiled", "hit": "from the cache", "link": "linked", "failed": "not finished"}


@dataclass(frozen=True, slots=True)
class Bar:
    """One piece of work: seconds since the first began, and how many it took. `state` is of STATES or empty."""

    name: str
    state: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Tracks in their order, each a name and its bars; `seconds` is the whole width."""

    tracks: tuple[tuple[str, tuple[Bar, ...]], ...]
    seconds: float

    @property
    def states(self) -> dict[str, str]:
        """The states that occur, and what they are called."""
        there = {bar.state for _, bars in self.tracks for bar in bars}
        return {state: words for state, words in STATES.items() if state in there}


def read_timeline(path: Path) -> Timeline:
    """The trace in a file. Raises UsageError when it is none."""
    try:
        return timeline_of(json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is no trace ({type(error).__name__}: {error})",
            expected='a JSON document of trace events, {"traceEvents": [{"ph": "X", "tid": 1, "ts": 0, "dur": 1, …}]}',
            remedy="name the trace that the build left, or leave timeline= out",
        ) from error


def timeline_of(document: Mapping[str, Any]) -> Timeline:
    """The outermost events by track. Raises KeyError, TypeError or ValueError for a document of another form."""
    events = list(document["traceEvents"])
    names = {e["tid"]: str(e["args"]["name"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    work = sorted((e for e in events if e["ph"] == "X" and e.get("cat") != "step"), key=lambda e: float(e["ts"]))
    begin = min((float(e["ts"]) for e in work), default=0.0)
    end = max((float(e["ts"]) + float(e["dur"]) for e in work), default=0.0)
    tracks = sorted({e["tid"] for e in work})
    bars = ((names.get(t, f"track {t}"), tuple(_outermost((e for e in work if e["tid"] == t), begin))) for t in tracks)
    return Timeline(tuple(bars), (end - begin) / 1e6)


def _outermost(events: Iterable[Mapping[str, Any]], begin: float) -> Iterator[Bar]:
    free = begin
    for event in events:
        start, length = float(event["ts"]), float(event["dur"])
        if start + length > free:
            state = str(event.get("cat", ""))
            yield Bar(str(event["name"]), state if state in STATES else "", (start - begin) / 1e6, length / 1e6)
            free = start + length
