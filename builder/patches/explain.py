"""Why a patch does not apply: expected against found, the nearest match, where things went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from builder.patches.diff import Hunk
from builder.patches.state import REASONS, HunkVerdict, State
from builder.patches.step import Step
from builder.patches.text import Text

_SHOWN = 24
_TOLD = 20


@dataclass(frozen=True, slots=True)
class Near:
    """The part of a file most like a hunk's old lines: 1-based line, its lines, likeness 0 to 1."""

    line: int
    lines: tuple[bytes, ...]
    likeness: float


def nearest(text: Text, wanted: Sequence[bytes]) -> Near | None:
    """The window most like the wanted lines, or None when not one line of them is there.

    Lines that occur vote for the place at which the whole would then start, rare lines with more
    weight; the best few places are compared line by line and letter by letter.
    """
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted):
        where = text.where(line)
        if line.strip() and len(where) <= 1000:
            for index in where:
                votes[index - offset] += 1 + 1000 // len(where)
    windows = [_window(text, start, len(wanted), wanted) for start, _ in votes.most_common(5)]
    return max(windows, key=lambda near: (near.likeness, -near.line), default=None)


def _window(text: Text, start: int, count: int, wanted: Sequence[bytes]) -> Near:
    first = max(0, start)
    lines = text.lines[first : max(first + 1, start + count)]
    return Near(first + 1, tuple(lines), likeness(wanted, lines))


def likeness(old: Sequence[bytes], new: Sequence[bytes]) -> float:
    """How alike two runs of lines are, 0 to 1: the mean of line and letter likeness."""
    by_line = SequenceMatcher(None, old, new, autojunk=False).ratio()
    a, b = b"".join(old)[:8000], b"".join(new)[:8000]
    by_letter = SequenceMatcher(None, a.decode("latin-1"), b.decode("latin-1"), autojunk=False).ratio()
    return (by_line + by_letter) / 2


def side_by_side(old: Sequence[bytes], new: Sequence[bytes], width: int = 58) -> Iterator[str]:
    """Two runs of lines in columns; a mark stands between those that differ."""
    rows = 0
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for index in range(max(b - a, d - c)):
            left = _shown(old[a + index]) if a + index < b else ""
            right = _shown(new[c + index]) if c + index < d else ""
            if rows == _SHOWN:
                yield "      …"
                return
            rows += 1
            yield f"      {left[:width]:<{width}} {' ' if kind == 'equal' else '≠'} {right[:width]}".rstrip()


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    end = "" if text.endswith("\n") else "⏎̸"
    return text.removesuffix("\n").replace("\r", "␍").replace("\t", "  ") + end


def brief(step: Step) -> str:
    """One patch that does not apply: every fault, and every hunk with what stands at its place."""
    verdict = step.verdict
    lines = [f"  {verdict.file}: {verdict.label}" + (f", {REASONS[verdict.reason]}" if verdict.reason else "")]
    lines += [f"    line {fault.line}: {fault.message}" for fault in verdict.faults[:20]]
    lines += [f"    {text}" for text in verdict.failed]
    hunks = {(patch.path, i): hunk for patch in step.patch.diff.files for i, hunk in enumerate(patch.hunks, 1)}
    counted = len(verdict.hunks)
    bad = [(number, found) for number, found in enumerate(verdict.hunks, 1) if not found.state.good]
    for number, found in bad[:_TOLD]:
        lines += _hunk(step, found, number, counted, hunks.get((found.path, found.index)))
    if len(bad) > _TOLD:
        lines.append(f"    … and {len(bad) - _TOLD} more")
    lines += [f"    {note}" for note in verdict.notes]
    return "\n".join(lines)


def _hunk(step: Step, found: HunkVerdict, number: int, counted: int, hunk: Hunk | None) -> Iterator[str]:
    where = f" (there: line {', '.join(map(str, found.others))})" if found.others else ""
    why = REASONS.get(found.reason, "its header or lines are damaged")
    if found.state is State.MALFORMED and found.at:
        why = f"damaged, though its lines stand at line {found.at}"
    yield f"    {found.path}, part {number} of {counted}, line {found.line} of the patch: {found.title}: {why}{where}"
    file = step.before.get(found.path)
    if hunk is None or file is None or found.reason not in {"context", "anchor", "duplicate"}:
        return
    near = nearest(step.before.blobs.text(file), hunk.old)
    if near is None:
        yield "      none of its lines is in that file"
        return
    yield f"      expected (left) and found at line {near.line} (right), {near.likeness:.0%} alike:"
    yield from side_by_side(hunk.old, near.lines)
