"""Which patches of a series touch the same or neighbouring lines, and whether their order matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from builder.patches.diff import Hunk
from builder.patches.judge import judge
from builder.patches.step import Step
from builder.patches.view import View

_CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines `old` to `old_end` (0-based, end excluded) become lines `new` to `new_end`."""

    old: int
    old_end: int
    new: int
    new_end: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two patches of one file. `relation`: same (lines), near (within 3 lines) or file.

    `lines` are 1-based first and last lines of the shared places, as the second patch finds the
    file. `order` says what the commute test found: free, fixed, or the patch that both need.
    """

    first: str
    second: str
    path: str
    relation: str
    lines: tuple[tuple[int, int], ...]
    order: str


def overlaps_of(steps: Sequence[Step]) -> tuple[Overlap, ...]:
    """Every pair of applied patches that share a file, in series order."""
    applied = [step for step in steps if step.verdict.state.applies]
    found = []
    for first, second in combinations(range(len(applied)), 2):
        shared = sorted(applied[first].patch.diff.paths & applied[second].patch.diff.paths)
        order = _order(applied[first], applied[second], applied[first + 1 : second]) if shared else ""
        found += [_pair(applied, first, second, path, order) for path in shared]
    return tuple(found)


def _pair(steps: Sequence[Step], first: int, second: int, path: str, order: str) -> Overlap:
    ranges = [(edit.new, edit.new_end) for edit in edits_of(steps[first], path)]
    for step in steps[first + 1 : second]:
        ranges = [_moved(span, tuple(edits_of(step, path))) for span in ranges]
    later = [(edit.old, edit.old_end) for edit in edits_of(steps[second], path)]
    gaps = [(_gap(a, b), b) for a in ranges for b in later]
    nearest = min((gap for gap, _ in gaps), default=_CONTEXT + 1)
    relation = "same" if nearest <= 0 else "near" if nearest <= _CONTEXT else "file"
    lines = sorted({(b[0] + 1, max(b[1], b[0] + 1)) for gap, b in gaps if gap <= (0 if nearest <= 0 else _CONTEXT)})
    return Overlap(steps[first].patch.file, steps[second].patch.file, path, relation, tuple(lines), order)


def _gap(a: tuple[int, int], b: tuple[int, int]) -> int:
    """Lines between two spans; 0 or less when they share a line, or one is put inside the other."""
    between = max(a[0], b[0]) - min(a[1], b[1])
    touching = between == 0 and a[0] < a[1] and b[0] < b[1]
    return 1 if touching else between


def _moved(span: tuple[int, int], edits: Sequence[Edit]) -> tuple[int, int]:
    """Where a span of lines is after edits that came later."""
    start, end = span
    delta = 0
    for edit in edits:
        if edit.old_end <= span[0]:
            delta += (edit.new_end - edit.new) - (edit.old_end - edit.old)
        elif edit.old < span[1]:
            start, end = (
                min(start, edit.old),
                max(end, edit.old_end) + (edit.new_end - edit.new) - (edit.old_end - edit.old),
            )
    return start + delta, end + delta


def edits_of(step: Step, path: str) -> Iterator[Edit]:
    """The line runs that a patch changes in one file, as it was placed."""
    hunks = {(item.path, index): hunk for item in step.patch.diff.files for index, hunk in enumerate(item.hunks, 1)}
    delta = 0
    for verdict in step.verdict.hunks:
        hunk = hunks.get((verdict.path, verdict.index))
        if hunk is not None and verdict.path == path:
            yield from _runs(hunk, verdict.at - 1, delta)
            delta += len(hunk.new) - len(hunk.old)


def _runs(hunk: Hunk, at: int, delta: int) -> Iterator[Edit]:
    old, new, start = at, at + delta, None
    for line in (*hunk.body, b" "):
        if line[:1] == b" ":
            if start is not None:
                yield Edit(start[0], old, start[1], new)
                start = None
            old, new = old + 1, new + 1
            continue
        start = start or (old, new)
        old, new = (old + 1, new) if line[:1] == b"-" else (old, new + 1)


def _order(first: Step, second: Step, between: Sequence[Step]) -> str:
    """The commute test, on the tree that the first patch was applied to."""
    straight = _applied((first, second), first.before)
    if straight is None:
        need = next((s.patch.file for s in between if _applied((first, s, second), first.before)), "several")
        return f"needs {need}"
    other = _applied((second, first), first.before)
    return "free" if other is not None and other.changes() == straight.changes() else "fixed"


def _applied(steps: Sequence[Step], view: View) -> View | None:
    current: View | None = view
    for step in steps:
        current = judge(step.patch.diff, current).after if current is not None else None
    return current
