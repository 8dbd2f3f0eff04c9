"""One patch against one tree: the state of each hunk, and the tree that it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from builder.patches.diff import LINK, Diff, FilePatch, Hunk
from builder.patches.place import Place, forward, locate
from builder.patches.state import HunkVerdict, State
from builder.patches.text import Text
from builder.patches.view import File, View


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts of all hunks in patch order, and the view after them when every one applies."""

    hunks: tuple[HunkVerdict, ...]
    after: View | None


def judge(diff: Diff, view: View) -> Judged:
    """Judge every hunk of a diff; the given view is not changed."""
    after = view.copy()
    verdicts: list[HunkVerdict] = []
    for patch in diff.files:
        verdicts += _judge_file(patch, after)
    applies = bool(verdicts) and all(verdict.state.applies for verdict in verdicts)
    return Judged(tuple(verdicts), after if applies else None)


def _judge_file(patch: FilePatch, view: View) -> list[HunkVerdict]:
    """Verdicts of one file change; it is made in the view as far as it applies."""
    whole = _WHOLE[patch.kind](patch, view)
    if whole is not None and not whole.state.applies:
        return [whole, *_without_place(patch, whole)]
    file = view.get(patch.old) if patch.old is not None else File(patch.new_mode, "", b"")
    if file is None:
        return [_missing(patch, hunk, index) for index, hunk in enumerate(patch.hunks, 1)]
    verdicts = _judge_hunks(patch, file, view)
    if all(verdict.state.applies for verdict in verdicts):
        _make(patch, file, verdicts, view)
    return [*([whole] if whole else []), *verdicts]


# -- what is done to the file itself ----------------------------------------------------------


def _whole(patch: FilePatch, state: State, reason: str = "") -> HunkVerdict:
    title = f"{patch.kind} {patch.path}" if patch.kind != "modify" else f"mode {patch.old_mode:o} to {patch.new_mode:o}"
    if patch.kind in {"rename", "copy"}:
        title = f"{patch.kind} {patch.old} to {patch.new}"
    return HunkVerdict(patch.path, 0, patch.line, state, reason=reason, title=title)


def _create(patch: FilePatch, view: View) -> HunkVerdict:
    if not view.blocked(patch.path):
        return _whole(patch, State.CLEAN)
    file = view.get(patch.path)
    if file is not None and file.data == _content(patch) and patch.new_mode in {0, file.mode}:
        return _whole(patch, State.CONTAINED)
    return _whole(patch, State.CONFLICT, "exists")


def _content(patch: FilePatch) -> bytes:
    return b"".join(line for hunk in patch.hunks for line in hunk.new)


def _delete(patch: FilePatch, view: View) -> HunkVerdict:
    file = view.get(patch.path)
    if file is None:
        return _whole(patch, State.CONFLICT if view.blocked(patch.path) == patch.path else State.CONTAINED, "type")
    old = b"".join(line for hunk in patch.hunks for line in hunk.old)
    if (patch.old_mode == LINK) != (file.mode == LINK):
        return _whole(patch, State.CONFLICT, "type")
    return _whole(patch, State.CLEAN) if file.data == old else _whole(patch, State.CONFLICT, "leftover")


def _move(patch: FilePatch, view: View) -> HunkVerdict:
    assert patch.old is not None  # noqa: S101  renames and copies have both names
    gone = view.entry(patch.old) is None
    there = view.get(patch.path)
    if not gone and not view.blocked(patch.path):
        return _whole(patch, State.CLEAN)
    if there is not None and (gone or patch.copy):
        good = _is_made(patch, there, view)
        return _whole(patch, State.CONTAINED) if good else _whole(patch, State.CONFLICT, "exists")
    return _whole(patch, State.CONFLICT, "missing" if gone else "exists")


def _is_made(patch: FilePatch, there: File, view: View) -> bool:
    """True when the file at the target is what the rename or copy makes; nothing else is known of a bare rename."""
    if patch.hunks:
        back = _judge_hunks(replace(patch, copy=False).reversed(), there, view)
        return all(verdict.state.applies for verdict in back)
    if _named(patch.new_oid):
        return _is(there.oid, patch.new_oid)
    origin = view.get(patch.old or "")
    return not patch.copy if origin is None else origin.data == there.data


def _modify(patch: FilePatch, view: View) -> HunkVerdict | None:
    entry = view.entry(patch.path)
    if entry is None:
        return _whole(patch, State.CONFLICT, "missing") if not patch.hunks else None
    if (patch.old_mode == LINK) != (entry.mode == LINK):
        return _whole(patch, State.CONFLICT, "type")
    if patch.old_mode == patch.new_mode:
        return None
    if entry.mode == patch.old_mode:
        return _whole(patch, State.CLEAN)
    return _whole(patch, State.CONTAINED) if entry.mode == patch.new_mode else _whole(patch, State.CONFLICT, "mode")


_WHOLE = {"create": _create, "delete": _delete, "copy": _move, "rename": _move, "modify": _modify}


def _without_place(patch: FilePatch, whole: HunkVerdict) -> list[HunkVerdict]:
    """Hunks of a file that is not there to be changed share its state."""
    state = State.CONTAINED if whole.state is State.CONTAINED else State.CONFLICT
    return [
        HunkVerdict(
            patch.path,
            index,
            hunk.line,
            State.MALFORMED if hunk.faulty else state,
            0,
            0,
            whole.reason,
            title=hunk.title,
        )
        for index, hunk in enumerate(patch.hunks, 1)
    ]


def _missing(patch: FilePatch, hunk: Hunk, index: int) -> HunkVerdict:
    state = State.MALFORMED if hunk.faulty else State.CONFLICT
    return HunkVerdict(patch.path, index, hunk.line, state, reason="missing", title=hunk.title)


# -- hunks ------------------------------------------------------------------------------------


def _judge_hunks(patch: FilePatch, file: File, view: View) -> list[HunkVerdict]:
    text = view.blobs.text(file) if file.oid else Text(file.data)
    known = _is(file.oid, patch.old_oid)
    trusted = not _named(patch.old_oid)
    origin = None if known or trusted else view.blobs.find(patch.old_oid)
    end = 0
    verdicts = []
    for index, hunk in enumerate(patch.hunks, 1):
        if patch.kind in {"create", "delete"}:
            place = Place(0)
        else:
            place = forward(text, hunk, known=known, trusted=trusted, origin=origin)
            if place.found and place.at < end:
                place = Place(-1, "order", (place.at + 1,))
        verdicts.append(_verdict(patch, hunk, index, place, text))
        if place.found:
            end = place.at + len(hunk.old)
    return verdicts


def _named(oid: str) -> bool:
    return bool(oid.strip("0"))


def _is(oid: str, named: str) -> bool:
    """True when a (perhaps shortened, at least 7 digits) blob id names this blob."""
    return len(named) >= 7 and _named(named) and oid.startswith(named)


def _verdict(patch: FilePatch, hunk: Hunk, index: int, place: Place, text: Text) -> HunkVerdict:
    base = HunkVerdict(patch.path, index, hunk.line, State.CLEAN, title=hunk.title)
    if hunk.faulty:
        return replace(base, state=State.MALFORMED, at=place.at + 1, reason=place.reason)
    if place.found:
        offset = 0 if patch.kind in {"create", "delete"} else place.at - hunk.old_index
        return replace(base, state=State.OFFSET if offset else State.CLEAN, offset=offset, at=place.at + 1)
    if place.reason in {"context", "anchor", "bare"}:
        back = locate(text, hunk.reversed(), trusted=True)
        if back.found:
            return replace(base, state=State.CONTAINED, at=back.at + 1)
    return replace(base, state=State.CONFLICT, reason=place.reason, others=place.lines)


def _make(patch: FilePatch, file: File, verdicts: Sequence[HunkVerdict], view: View) -> None:
    """Make the change in the view."""
    if patch.new is None:
        view.remove(patch.path)
        return
    if patch.kind == "rename" and patch.old is not None:
        view.remove(patch.old)
    data = _content(patch) if patch.old is None else _spliced(view.blobs.text(file).lines, patch.hunks, verdicts)
    view.put(patch.new, data, _new_mode(patch, file))


def _new_mode(patch: FilePatch, file: File) -> int:
    if patch.old is None:
        return patch.new_mode or 0o100644
    return patch.new_mode if patch.old_mode != patch.new_mode and patch.new_mode else file.mode


def _spliced(lines: Sequence[bytes], hunks: Sequence[Hunk], verdicts: Sequence[HunkVerdict]) -> bytes:
    parts: list[bytes] = []
    end = 0
    for hunk, verdict in zip(hunks, verdicts, strict=True):
        parts += lines[end : verdict.at - 1]
        parts += hunk.new
        end = verdict.at - 1 + len(hunk.old)
    return b"".join([*parts, *lines[end:]])
