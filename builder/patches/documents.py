"""What the patch verbs say, as JSON documents (`"version": 1`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from builder.patches.load import Patch
from builder.patches.overlap import Overlap
from builder.patches.radar import Radar, Track
from builder.patches.refresh import Refresh
from builder.patches.result import Result
from builder.patches.state import REASONS, HunkVerdict, PatchVerdict
from builder.patches.step import Step
from builder.patches.superseded import Watch
from builder.patches.trace import Explanation

Document = dict[str, object]
Standing = tuple[Watch, PatchVerdict]
"""A change that nobody carries, and what it is on a tree."""


def verdict_of(verdict: PatchVerdict) -> Document:
    """State, hunks and faults of one patch."""
    return {
        "file": verdict.file,
        "sha256": verdict.sha256,
        "state": verdict.state.value,
        "label": verdict.label,
        "offset": verdict.offset,
        "reason": verdict.reason,
        "meaning": REASONS.get(verdict.reason, ""),
        "with": verdict.group,
        "hunks": [hunk_of(hunk) for hunk in verdict.hunks],
        "faults": [{"line": fault.line, "kind": fault.kind, "message": fault.message} for fault in verdict.faults],
        "failed": list(verdict.failed),
        "notes": list(verdict.notes),
    }


def hunk_of(hunk: HunkVerdict) -> Document:
    """State and place of one hunk."""
    return {
        "path": hunk.path,
        "hunk": hunk.index,
        "patch_line": hunk.line,
        "title": hunk.title,
        "state": hunk.state.value,
        "offset": hunk.offset,
        "line": hunk.at,
        "reason": hunk.reason,
        "others": list(hunk.others),
    }


def status_of(
    package: str,
    version: str,
    steps: Sequence[Step],
    explained: Iterable[tuple[str, Explanation]],
    unlisted: Sequence[str],
    standings: Sequence[Standing] = (),
    result: Result | None = None,
) -> Document:
    """One package's series on one release; `result` only where the recipe says what must come of it."""
    verdicts = [*(step.verdict for step in steps), *(verdict for _, verdict in standings)]
    return {
        "package": package,
        "release": version,
        "good": all(verdict.state.good for verdict in verdicts) and (result is None or result.matches),
        "superseded": [standing_of(watch, verdict) for watch, verdict in standings],
        "result_tree": None if result is None else result_tree_of(result),
        "patches": [verdict_of(step.verdict) | header_of(step.patch) for step in steps],
        "explanations": [explanation_of(file, item) for file, item in explained],
        "unlisted": list(unlisted),
    }


def standing_of(watch: Watch, verdict: PatchVerdict) -> Document:
    """What a change that nobody carries is: `superseded`, or `needed` with the probes that do not hold."""
    return {
        "name": watch.name,
        "state": verdict.state.value,
        "meaning": REASONS.get(verdict.reason, ""),
        "reason": watch.entry.reason,
        "bug": watch.entry.bug,
        "probe": list(watch.entry.probe),
        "failed": list(verdict.failed),
    }


def result_tree_of(result: Result) -> Document:
    """The tree that the series gives, against the recipe's; `message` and `next` are "" where they are the same."""
    return {
        "expected": result.expected,
        "found": result.found,
        "message": result.message,
        "next": result.remedy,
    }


def header_of(patch: Patch) -> Document:
    """What the patch's header says, and which of its fields are missing."""
    return {
        "description": patch.header.description,
        "expects": [probe.text for probe in patch.header.expects],
        "superseded_when": [probe.text for probe in patch.header.superseded_when],
        "missing_fields": list(patch.header.missing),
    }


def explanation_of(file: str, item: Explanation) -> Document:
    """Why one hunk does not fit."""
    return {
        "file": file,
        "path": item.verdict.path,
        "hunk": item.verdict.index,
        "reason": item.verdict.reason,
        "meaning": REASONS.get(item.verdict.reason, ""),
        "expected": _texts(item.expected),
        "found": _texts(item.near.lines) if item.near else [],
        "found_line": item.near.line if item.near else 0,
        "likeness": round(item.near.likeness, 3) if item.near else 0.0,
        "moved_to": item.moved_to,
        "moved_likeness": round(item.moved_likeness, 3),
        "function": item.function,
        "function_at": list(item.function_at),
        "last_in": item.last_in,
        "changed_in": item.changed_in,
    }


def overlap_of(item: Overlap) -> Document:
    """One pair of patches."""
    return {
        "first": item.first,
        "second": item.second,
        "path": item.path,
        "relation": item.relation,
        "lines": [list(span) for span in item.lines],
        "order": item.order,
    }


def radar_of(radar: Radar) -> Document:
    """The table of one package."""
    return {
        "package": radar.package,
        "pinned": radar.pinned,
        "releases": list(radar.releases),
        "patches": [_track(radar, track) for track in radar.tracks],
        "superseded": [_track(radar, track) for track in radar.superseded],
    }


def _track(radar: Radar, track: Track) -> Document:
    cells = zip(radar.releases, track.verdicts, strict=True)
    return {
        "file": track.file,
        "description": track.description,
        "states": {version: {"state": v.state.value, "label": v.label, "reason": v.reason} for version, v in cells},
        "fits": list(track.fits),
        "breaks_at": track.breaks_at,
        "contained_from": track.contained_from,
        "superseded_from": track.superseded_from,
    }


def refresh_of(state: Refresh) -> Document:
    """A refresh, done or standing at a conflict."""
    return {
        "package": state.package,
        "from": state.old_version,
        "to": state.new_version,
        "good": state.done or state.why.startswith("aborted"),
        "patches": [{"file": moved.file, "outcome": moved.outcome} for moved in state.moved],
        "stopped_at": "" if state.done or not state.why else _next(state),
        "conflicts": list(state.conflicts),
        "why": state.why,
        "work": state.work if not state.done else "",
        "result_tree": state.result_tree,
        "notes": list(state.notes),
    }


def _next(state: Refresh) -> str:
    return state.files[len(state.moved)] if len(state.moved) < len(state.files) else ""


def _texts(lines: Iterable[bytes]) -> list[str]:
    return [line.decode(errors="replace").removesuffix("\n") for line in lines]
