"""Kernels by architecture as a picture, per object, before and after; one HTML page that needs nothing else.

A column is a kernel, a row an architecture; kernels that are alike lie side by side, so an object with
thousands of them is a few rectangles. The first row says what the device makes of each kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby

from builder.inspect.devices import capability, launches, loads
from builder.inspect.facts import CLASSES, FileFacts, ImageFacts, KernelFacts, ObjectFacts
from builder.model import Finding, Verdict
from builder.report import size
from builder.verify.code import label
from builder.verify.expect import Expectations

WIDTH = 840
"""Pixels of the widest row of an object."""

STATES = {
    "native": "runs as it is",
    "jit": "compiled at load",
    "none": "cannot run",
    "empty": "does nothing",
    "trap": "only traps",
}

Entry = tuple[FileFacts, Verdict, Expectations]


@dataclass(frozen=True, slots=True)
class Segment:
    """`count` neighbouring kernels of one state (empty: they have no code for that architecture)."""

    state: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """One architecture, or the device: its segments and its non-zero instruction counts."""

    label: str
    segments: tuple[Segment, ...]
    instructions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """One object. `kernels` is the number of columns; rows begin with the device's."""

    path: str
    kernels: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """An object and what it was in the other wheel, at one scale: pixels per kernel."""

    after: Picture
    before: Picture | None
    scale: float
    findings: tuple[Finding, ...]


def picture_of(found: ObjectFacts, device: str) -> Picture:
    """The object's kernels by architecture, seen from the device (a compute capability such as `12.1`)."""
    where = capability(device)
    fates = {key: _state(how, kernel) for key, (how, kernel) in launches(found.images, where).items()}
    cells = _cells(found.images, device)
    labels = sorted({row for states in cells.values() for row in states})
    columns = [(fates[key], *(cells[key].get(row, "") for row in labels)) for key in fates]
    order = list(STATES)
    columns.sort(key=lambda column: (order.index(column[0]), *(state == "" for state in column[1:]), column))
    names = (f"on {device}", *labels)
    counts = _instructions(found.images)
    rows = (Row(name, tuple(_runs(c[i] for c in columns)), counts.get(name, ())) for i, name in enumerate(names))
    return Picture(found.path, len(columns), tuple(rows))


def page(entries: Sequence[Entry], before: FileFacts | None = None) -> str:
    """The whole report as HTML; `before` is the other wheel, usually the official one of the same version."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["size"] = size
    template = environment.from_string((files("builder.verify") / "report.html.j2").read_text())
    pairs = [(file, verdict, wanted, tuple(_pairs(file, verdict, wanted, before))) for file, verdict, wanted in entries]
    return template.render(entries=pairs, before=before, states=STATES, width=WIDTH)


def _pairs(file: FileFacts, verdict: Verdict, wanted: Expectations, before: FileFacts | None) -> Iterator[Pair]:
    for found in file.objects:
        after, other = picture_of(found, wanted.device), _counterpart(found, before)
        was = picture_of(other, wanted.device) if other else None
        widest = max(after.kernels, was.kernels if was else 0, 1)
        yield Pair(after, was, WIDTH / widest, tuple(f for f in verdict.findings if f.where == found.path))


def _counterpart(found: ObjectFacts, before: FileFacts | None) -> ObjectFacts | None:
    return next((other for other in before.objects if other.path == found.path), None) if before else None


def _cells(images: Iterable[ImageFacts], device: str) -> dict[tuple[int, str], dict[str, str]]:
    cells: dict[tuple[int, str], dict[str, str]] = {}
    for image in images:
        how = loads(image.kind, image.arch, capability(device))
        for kernel in image.kernels or ():
            cells.setdefault((image.container, kernel.name), {})[label(image)] = _state(how, kernel)
    return cells


def _state(how: str, kernel: KernelFacts) -> str:
    if how == "none":
        return how
    return "trap" if kernel.trap_only else "empty" if kernel.empty else how


def _runs(states: Iterable[str]) -> Iterator[Segment]:
    start = 0
    for state, group in groupby(states):
        count = sum(1 for _ in group)
        if state:
            yield Segment(state, start, count)
        start += count


def _instructions(images: Iterable[ImageFacts]) -> dict[str, tuple[tuple[str, int], ...]]:
    sums: dict[str, Counter[str]] = {}
    for image in images:
        for kernel in image.kernels or ():
            sums.setdefault(label(image), Counter()).update(kernel.instructions())
    return {name: tuple((c, found[c]) for c in CLASSES if found[c]) for name, found in sums.items()}
