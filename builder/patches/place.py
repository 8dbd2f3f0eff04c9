"""Where one hunk fits a file: exactly, without fuzz, and in one place only.

The rules are `git apply`'s (a hunk at line 1 must match at the start, one without trailing
context at the end), and stricter where git and patch guess: of two places that match neither is
taken, unless one is the stated line and nothing says that the file is another than the one the
patch was made on; and lines that are there already are never put in a second time. One place that
matches is not taken either where the lines are the last of several alike, or where the function or
class that the hunk's header names is gone: it is then likely a twin of what the patch is about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from builder.patches.diff import Hunk
from builder.patches.text import Text

_TELLING = 40
"""Letters and digits from which on a block of two or more added lines counts as recognisable."""

_KEYWORDS = (b"class ", b"struct ", b"def ")
_NAMED = re.compile(r"(?:async\s+)?(class|struct|def)\s+(\w+)")
_OUTSIDE = re.compile(rb"[^\s)\]}#]")
_OUTSIDE_DEF = re.compile(rb"[^\s)\]}#]|\s+(?:@|async |class |def )")
"""Lines at which what a hunk's header names is over. A method's header may be the one without its indentation."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hunk stands: a 0-based index, -1 with the `reason` when it fits nowhere or not safely.

    Reasons: `context` (no place matches), `ambiguous` (several do, or the one may be a twin),
    `anchor` (it matches, but not at the start or end of the file, where it must), `bare` (it has no
    old lines to find), `duplicate` (its lines are there already).
    """

    at: int
    reason: str = ""
    lines: tuple[int, ...] = ()

    @property
    def found(self) -> bool:
        """True when there is one safe place."""
        return self.at >= 0


def forward(text: Text, hunk: Hunk, *, known: bool, trusted: bool, origin: Text | None = None) -> Place:
    """Where the hunk can be applied.

    `known`: the file is proven to be the one that the patch was made on. `trusted`: the stated
    line number is not contradicted by the blob id that the patch names. `origin`: the file that
    the patch was made on, where it is at hand.
    """
    place = locate(text, hunk, trusted=known or trusted)
    if not place.found or known:
        return place
    twice = _already(text, hunk, place.at)
    if twice >= 0:
        return Place(-1, "duplicate", (twice + 1,))
    return Place(-1, "ambiguous", (place.at + 1,)) if _is_doubtful(text, hunk, place.at, origin) else place


def locate(text: Text, hunk: Hunk, *, trusted: bool) -> Place:
    """The one place at which the hunk's old lines stand."""
    exact = hunk.old_index
    if not hunk.old:
        return Place(exact) if exact == 0 and not text.lines else Place(-1, "bare")
    if trusted and text.fits(hunk.old, exact) and _anchored(text, hunk, exact):
        return Place(exact)
    found = []
    for place in text.places(hunk.old):
        found.append(place)
        if len(found) > 8:
            break
    good = [place for place in found if _anchored(text, hunk, place)]
    if len(good) == 1:
        return Place(good[0])
    if good:
        return Place(-1, "ambiguous", tuple(place + 1 for place in good))
    return Place(-1, "anchor" if found else "context", tuple(place + 1 for place in found))


def _anchored(text: Text, hunk: Hunk, at: int) -> bool:
    if hunk.old_start <= 1 and at != 0:
        return False
    return hunk.trailing > 0 or at + len(hunk.old) == len(text.lines)


def _is_doubtful(text: Text, hunk: Hunk, at: int, origin: Text | None) -> bool:
    """True when the one place may be another than the one that the patch was made for."""
    before = Place(-1, "context") if origin is None else locate(origin, hunk, trusted=False)
    if origin is not None and before.reason == "ambiguous":
        return not _stayed(text, hunk, at, origin)
    return not before.found and _is_astray(text, hunk, at)


def _stayed(text: Text, hunk: Hunk, at: int, origin: Text) -> bool:
    """True when all that is above the stated place, or all below it, is as it was: no twin of it, then."""
    if not origin.fits(hunk.old, hunk.old_index):
        return False
    stated, count = hunk.old_index, len(hunk.old)
    above, below = text.lines[:at], text.lines[at + count :]
    if above and above == origin.lines[:stated]:
        return True
    return bool(below) and below == origin.lines[stated + count :]


def _is_astray(text: Text, hunk: Hunk, at: int) -> bool:
    """True when the hunk changes the inside of a function or class that is defined nowhere above the place."""
    named = _NAMED.match(hunk.section)
    if named is None:
        return False
    outside = _OUTSIDE_DEF if named[1] == "def" else _OUTSIDE
    if any(outside.match(line[1:]) for line in hunk.body[: hunk.leading + 1]):
        return False  # the change is below another line of that level, in what the header does not name
    end = b"" if named.end() == len(hunk.section) else rb"(?!\w)"  # git cuts long headers
    return not 0 <= _defined(text, re.escape(named[2]).encode() + end) < at


def _defined(text: Text, name: bytes) -> int:
    """The line of the first definition of a name (a pattern), -1 without one."""
    for found in re.finditer(name, text.data):
        if text.data.endswith(_KEYWORDS, 0, found.start()):
            return text.data.count(b"\n", 0, found.start())
    return -1


def _already(text: Text, hunk: Hunk, at: int) -> int:
    """Where the hunk's result, or a telling block that it adds, stands already; -1 when nowhere."""
    if all(line[:1] != b"+" for line in hunk.body):
        return -1
    for place in text.places(hunk.new):
        if place < at + len(hunk.old) and at < place + len(hunk.new):
            return place
    own = range(at, at + len(hunk.old))  # a patch may well repeat its own context
    return next((place for run in _added(hunk) for place in text.places(run) if place not in own), -1)


def _added(hunk: Hunk) -> list[Sequence[bytes]]:
    """Blocks of added lines that replace nothing and are long enough to be told from chance."""
    if any(line[:1] == b"-" for line in hunk.body):
        return []
    runs: list[list[bytes]] = [[]]
    for line in hunk.body:
        if line[:1] == b"+":
            runs[-1].append(line[1:])
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if _is_telling(run)]


def _is_telling(run: Sequence[bytes]) -> bool:
    letters = sum(chr(c).isalnum() for line in run for c in line)
    return sum(bool(line.strip()) for line in run) >= 2 and letters >= _TELLING
