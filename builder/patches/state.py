"""States of patches and hunks, and the records that say them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from builder.patches.diff import Fault


class State(StrEnum):
    """What a patch or hunk is on a given tree."""

    CLEAN = "clean"
    OFFSET = "offset"
    CONTAINED = "contained"
    SUPERSEDED = "superseded"
    CONFLICT = "conflict"
    MALFORMED = "malformed"
    NEEDED = "needed"

    @property
    def applies(self) -> bool:
        """True for clean and offset."""
        return self in {State.CLEAN, State.OFFSET}

    @property
    def good(self) -> bool:
        """True unless it stops a series."""
        return self not in {State.CONFLICT, State.MALFORMED, State.NEEDED}


REASONS = {
    "context": "the lines that it changes are not there",
    "ambiguous": "its lines stand in several places, here or where it was made, or not in what its header names",
    "anchor": "its lines stand elsewhere, but it must match at the start or end of the file",
    "bare": "a hunk without any context line does not say where it belongs",
    "duplicate": "what it adds is there already, and it would be added a second time",
    "order": "it matches only inside or above an earlier hunk of the same file",
    "missing": "the tree has no such file",
    "moved": "the file has moved",
    "exists": "something else is already at that path",
    "type": "the path is a link where a file is expected, or the other way round",
    "mode": "the file's mode is neither the old nor the new one",
    "leftover": "the file to delete has lines that the patch does not know",
    "partial": "only some of its hunks are upstream already",
    "tests-only": "everything fits but hunks in tests",
    "empty": "it has no diff, and what would supersede it is not in this tree",
    "expects": "what it promises to make true is not true after applying it",
    "syntax": "a Python file no longer parses after applying it",
    "series": "a patch that it needs did not apply",
    "unmet": "what superseded it is not in this tree, and no patch carries it",
}
"""Why a hunk or patch is in conflict, by its short code."""


@dataclass(frozen=True, slots=True)
class HunkVerdict:
    """State of one hunk, or with index 0 of what is done to the file itself (create, rename, mode).

    `line` is its 1-based line in the patch file; `at` the 1-based line in the tree's file, 0 when
    it has no place; `offset` in lines against the stated place; `others` are the 1-based lines
    that made it ambiguous or a duplicate.
    """

    path: str
    index: int
    line: int
    state: State
    offset: int = 0
    at: int = 0
    reason: str = ""
    others: tuple[int, ...] = ()
    title: str = ""


@dataclass(frozen=True, slots=True)
class PatchVerdict:
    """State of one patch on one tree. `group` names the later patch together with which it is contained."""

    file: str
    sha256: str
    state: State
    offset: int = 0
    reason: str = ""
    hunks: tuple[HunkVerdict, ...] = ()
    faults: tuple[Fault, ...] = ()
    failed: tuple[str, ...] = ()
    group: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def label(self) -> str:
        """The state in a few letters: `clean`, `offset(-3)`, `contained`, `conflict(moved)`."""
        if self.state is State.OFFSET:
            return f"offset({self.offset:+d})"
        return f"conflict({self.reason})" if self.state is State.CONFLICT else self.state.value


def in_tests(path: str) -> bool:
    """True for files that only tests use."""
    parts = path.split("/")
    return any(part in {"test", "tests"} for part in parts[:-1]) or parts[-1].startswith("test_")


def summed(hunks: Iterable[HunkVerdict], *, faulty: bool) -> tuple[State, int, str]:
    """State, largest offset and reason of a patch from those of its hunks."""
    hunks = tuple(hunks)
    states = {hunk.state for hunk in hunks}
    if faulty or State.MALFORMED in states:
        return State.MALFORMED, 0, ""
    if State.CONFLICT in states:
        return State.CONFLICT, 0, _reason(hunks)
    if states == {State.CONTAINED}:
        return State.CONTAINED, 0, ""
    if State.CONTAINED in states:
        return State.CONFLICT, 0, "partial"
    offset = max((hunk.offset for hunk in hunks), key=abs, default=0)
    return (State.OFFSET if offset else State.CLEAN), offset, ""


def _reason(hunks: tuple[HunkVerdict, ...]) -> str:
    bad = [hunk for hunk in hunks if hunk.state is State.CONFLICT]
    rest = [hunk for hunk in hunks if hunk.state is not State.CONFLICT]
    only_there = all(in_tests(hunk.path) for hunk in bad) and not all(in_tests(hunk.path) for hunk in rest)
    if only_there and all(hunk.state.applies for hunk in rest):
        return "tests-only"
    return bad[0].reason
