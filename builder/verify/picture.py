"""Kernels by architecture as a picture, per object, before and after; one HTML page that needs nothing else.

A column is a kernel, a row an architecture; kernels that are alike lie side by side, so an object with
thousands of them is a few rectangles. The first row says what the device makes of each kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby

from packaging.utils import canonicalize_name

from builder.finding import Finding, Verdict
from builder.inspect.devices import capability, chosen, launches, loads, number
from builder.inspect.facts import CLASSES, FileFacts, ImageFacts, KernelFacts, ObjectFacts
from builder.report import counted, duration, size
from builder.verify.code import Proven, label, proven
from builder.verify.expect import Expectations
from builder.verify.names import cut
from builder.verify.sources import identifier
from builder.verify.timeline import STATES as WORK
from builder.verify.timeline import Timeline
from builder.verify.versions import same

STATES = {
    "native": "run as they are",
    "jit": "compiled at load",
    "none": "cannot run",
    "empty": "do nothing",
    "trap": "only trap",
    "spare": "not taken: there is better code",
}
"""What becomes of kernels on the device; spare is code for one that runs there by other code."""

_LISTED = 100
"""Names that the page lists one by one; of more it tells the functions, as thousands would make it megabytes."""

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

    @property
    def kernels(self) -> int:
        """How many kernels it has."""
        return sum(segment.count for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Picture:
    """One object. `kernels` is the number of columns; rows begin with the device's."""

    path: str
    kernels: int
    rows: tuple[Row, ...]

    @property
    def fates(self) -> Mapping[str, int]:
        """How many kernels are of each state on the device."""
        return {segment.state: segment.count for segment in self.rows[0].segments}


@dataclass(frozen=True, slots=True)
class Pair:
    """An object and what it was in the other wheel; `widest` kernels are the whole width. One of the two may lack."""

    path: str
    after: Picture | None
    before: Picture | None
    findings: tuple[Finding, ...] = ()

    @property
    def widest(self) -> int:
        """Columns of the wider of the two."""
        return max(picture.kernels for picture in (self.after, self.before) if picture)


@dataclass(frozen=True, slots=True)
class Sheet:
    """All that the page says of one file. `codeless` are objects without kernels, `totals` the sums of both wheels.

    `before` is its counterpart, `older` the version of that where it is another one.
    """

    file: FileFacts
    verdict: Verdict
    wanted: Expectations
    pairs: tuple[Pair, ...]
    codeless: tuple[str, ...]
    proofs: tuple[Proven, ...]
    totals: tuple[tuple[str, Picture], ...]
    before: FileFacts | None = None
    older: str = ""


def counterpart(file: FileFacts, before: FileFacts | None) -> FileFacts | None:
    """The other file, unless both are wheels and of different projects."""
    if before is None or before.wheel is None or file.wheel is None:
        return before
    return before if canonicalize_name(before.wheel.name) == canonicalize_name(file.wheel.name) else None


def other_version(file: FileFacts, before: FileFacts | None) -> str:
    """The version of the other wheel where it is not this one's, local parts aside."""
    if before is None or before.wheel is None or file.wheel is None:
        return ""
    return "" if same(before.wheel.version, file.wheel.version, public=True) else before.wheel.version


def picture_of(found: ObjectFacts, device: str) -> Picture:
    """The object's kernels by architecture, seen from the device (a compute capability such as `12.1`)."""
    where = capability(device)
    fates = {key: _state(how, kernel) for key, (how, kernel) in launches(found.images, where).items()}
    cells = _cells(found.images, device)
    labels = sorted({row for states in cells.values() for row in states}, key=_by_number)
    columns = [(fates[key], *(cells[key].get(row, "") for row in labels)) for key in fates]
    order = list(STATES)
    columns.sort(key=lambda column: (order.index(column[0]), *(state == "" for state in column[1:]), column))
    names = (f"on {device}", *labels)
    counts = _instructions(found.images)
    rows = (Row(name, tuple(_runs(c[i] for c in columns)), counts.get(name, ())) for i, name in enumerate(names))
    return Picture(found.path, len(columns), tuple(rows))


def page(entries: Sequence[Entry], before: FileFacts | None = None, timeline: Timeline | None = None) -> str:
    """The whole report as HTML.

    `before` is the other wheel, usually the official one of the same version, drawn beside files of its project alone;
    `timeline`, where there is one, how the build went.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"size": size, "duration": duration, "counted": counted, "unfolded": unfolded}
    template = environment.from_string((files("builder.verify") / "report.html.j2").read_text())
    sheets = [_sheet(file, verdict, wanted, counterpart(file, before)) for file, verdict, wanted in entries]
    return template.render(sheets=sheets, states=STATES, work=WORK, timeline=timeline)


def unfolded(names: Sequence[str]) -> tuple[str, ...]:
    """A line for each name, the long ones cut; of very many, a line for each function that they are made of."""
    if len(names) <= _LISTED:
        return tuple(map(cut, names))
    families = Counter(identifier(name) for name in names)
    return tuple(f"{cut(name)}: {count}" for name, count in sorted(families.items(), key=lambda pair: (-pair[1], pair)))


def _sheet(file: FileFacts, verdict: Verdict, wanted: Expectations, before: FileFacts | None) -> Sheet:
    after = {found.path: picture_of(found, wanted.device) for found in file.objects}
    was = {found.path: picture_of(found, wanted.device) for found in before.objects} if before else {}
    pairs = [
        Pair(path, after.get(path), was.get(path), tuple(f for f in verdict.findings if f.where == path))
        for path in sorted(after.keys() | was.keys())
        if any(side[path].kernels for side in (after, was) if path in side)
    ]
    pairs.sort(key=lambda pair: (pair.after is None, not pair.findings, -pair.widest))
    sums = [("before", _total(was.values()))] * bool(before) + [("after" if before else "", _total(after.values()))]
    codeless = tuple(path for path, picture in after.items() if not picture.kernels)
    proofs = tuple(proven(file, wanted))
    older = other_version(file, before)
    return Sheet(file, verdict, wanted, tuple(pairs), codeless, proofs, tuple(sums), before, older)


def _total(pictures: Iterable[Picture]) -> Picture:
    """A picture of one row: all kernels of a wheel by what the device makes of them."""
    sums = sum((Counter(picture.fates) for picture in pictures), Counter[str]())
    states = [state for state in STATES for _ in range(sums[state])]
    return Picture("", len(states), (Row("", tuple(_runs(states))),))


def _by_number(name: str) -> tuple[int, bool, str]:
    """sm_80 before sm_100, and PTX after the machine code of its architecture."""
    return number(name), name.startswith("compute_"), name


def _cells(images: Sequence[ImageFacts], device: str) -> dict[tuple[int, str], dict[str, str]]:
    """(container, kernel) → state by architecture."""
    where, cells = capability(device), dict[tuple[int, str], dict[str, str]]()
    groups = groupby(sorted(images, key=lambda image: image.container), lambda image: image.container)
    for container, group in groups:
        together = list(group)
        taken = chosen(together, where)
        for image in together:
            how = loads(image.kind, image.arch, where)
            for kernel in image.kernels or ():
                state = "spare" if how != "none" and image is not taken else _state(how, kernel)
                cells.setdefault((container, kernel.name), {})[label(image)] = state
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
