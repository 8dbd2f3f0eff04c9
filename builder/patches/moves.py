"""Tells a file that has moved from one that is gone: the same name elsewhere, with the lines that are looked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from builder.patches.diff import FilePatch
from builder.patches.load import Patch
from builder.patches.state import PatchVerdict
from builder.patches.view import View


def moved(patch: Patch, verdict: PatchVerdict, view: View) -> PatchVerdict:
    """The verdict with reason `moved` and where to, when every missing file is found elsewhere."""
    gone = [item for item in patch.diff.files if item.old is not None and view.entry(item.old) is None and item.hunks]
    found = {item.path: next(_elsewhere(item, view), "") for item in gone}
    if not found or not all(found.values()):
        return verdict
    hunks = tuple(replace(h, reason="moved") if h.reason == "missing" and h.path in found else h for h in verdict.hunks)
    notes = tuple(f"{path} is now {place}" for path, place in found.items())
    return replace(verdict, reason="moved", hunks=hunks, notes=notes)


def _elsewhere(item: FilePatch, view: View) -> Iterator[str]:
    """Files of the same name that have all the lines, in order of path."""
    name = (item.old or "").rpartition("/")[2]
    for path in view.paths():
        if path.rpartition("/")[2] == name:
            data = view.read(path) or b""
            if all(b"".join(hunk.old) in data for hunk in item.hunks):
                yield path
