"""Where a conflict comes from: where the file or function went, and which release changed it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from packaging.version import Version

from builder.git import Entry
from builder.patches.diff import Hunk
from builder.patches.explain import Near, nearest
from builder.patches.probe import parsed
from builder.patches.radar import Release
from builder.patches.state import HunkVerdict
from builder.patches.step import Step
from builder.patches.view import Blobs

_ALIKE = 0.5
_LOOKED_AT = 400


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of upstream beside the judged tree: the pinned tree, and releases in the store."""

    blobs: Blobs
    pinned: Release
    judged: Release
    releases: tuple[Release, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """One hunk that does not fit.

    `near` is what stands nearest in the same file; `moved_to` where the file went, with its
    likeness; `function` the enclosing definition in the pinned tree and `function_at` where it is
    now (`path:line`); `changed_in` the first release without the expected lines, `last_in` the
    last with them.
    """

    verdict: HunkVerdict
    expected: tuple[bytes, ...]
    near: Near | None
    moved_to: str = ""
    moved_likeness: float = 0.0
    function: str = ""
    function_at: tuple[str, ...] = ()
    last_in: str = ""
    changed_in: str = ""


def explanations(step: Step, past: Past) -> tuple[Explanation, ...]:
    """Explain every hunk of a patch that is in conflict."""
    hunks = {(item.path, index): hunk for item in step.patch.diff.files for index, hunk in enumerate(item.hunks, 1)}
    return tuple(
        _explained(step, past, verdict, hunks.get((verdict.path, verdict.index)))
        for verdict in step.verdict.hunks
        if not verdict.state.good
    )


def _explained(step: Step, past: Past, verdict: HunkVerdict, hunk: Hunk | None) -> Explanation:
    old = next((item.old or item.path for item in step.patch.diff.files if item.path == verdict.path), verdict.path)
    file = step.before.get(old)
    wanted = hunk.old if hunk is not None else ()
    near = nearest(past.blobs.text(file), wanted) if file is not None and wanted else None
    moved, likeness = went(past, old) if file is None else ("", 0.0)
    function = enclosing(past, old, hunk) if hunk is not None else ""
    last, changed = _changed(past, old, wanted)
    return Explanation(verdict, wanted, near, moved, likeness, function, _found(past, function, old), last, changed)


def went(past: Past, path: str) -> tuple[str, float]:
    """Where a file of the pinned tree is in the judged one, and how alike the two are (0 to 1).

    Own search, because only one file is asked for: git's rename detection compares all with all.
    """
    objects = past.blobs.objects
    old, new = objects.files(past.pinned.tree), objects.files(past.judged.tree)
    entry = old.get(path)
    if entry is None:
        return "", 0.0
    same = next((name for name, found in new.items() if found.oid == entry.oid and name not in old), "")
    if same:
        return same, 1.0
    wanted = _lines(past, entry)
    suffix = PurePosixPath(path).suffix
    fresh = [name for name in new if name not in old and PurePosixPath(name).suffix == suffix]
    stem = PurePosixPath(path).stem
    fresh.sort(key=lambda name: (stem not in name, name))
    scored = [(_overlap(wanted, _lines(past, new[name])), name) for name in fresh[:_LOOKED_AT]]
    best = max(scored, default=(0.0, ""))
    return (best[1], best[0]) if best[0] >= _ALIKE else ("", 0.0)


def _lines(past: Past, entry: Entry) -> Counter[bytes]:
    return Counter(line.strip() for line in past.blobs.objects.read(entry.oid).splitlines() if len(line.strip()) > 3)


def _overlap(old: Counter[bytes], new: Counter[bytes]) -> float:
    total = old.total() + new.total()
    return 2 * (old & new).total() / total if total else 0.0


def enclosing(past: Past, path: str, hunk: Hunk) -> str:
    """The dotted name of the function or class around a hunk in the pinned tree, "" when there is none."""
    entry = past.blobs.objects.entry(past.pinned.tree, path)
    tree = parsed(past.blobs.objects.read(entry.oid)) if entry is not None and path.endswith(".py") else None
    line = hunk.old_start + hunk.leading
    names = []
    node: ast.AST | None = tree
    while node is not None:
        node = next((inner for inner in _definitions(node) if inner.lineno <= line <= (inner.end_lineno or 0)), None)
        names += [node.name] if node is not None else []
    return ".".join(names)


def _definitions(node: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _definitions(child)


def _found(past: Past, function: str, path: str) -> tuple[str, ...]:
    """Where a definition of that name stands now: the same file first, then files that changed since the pin."""
    name = function.rpartition(".")[2]
    if not name:
        return ()
    objects = past.blobs.objects
    old, new = objects.files(past.pinned.tree), objects.files(past.judged.tree)
    names = [path] if path in new else []
    names += [other for other in new if other.endswith(".py") and new[other] != old.get(other) and other != path]
    places = (f"{other}:{line}" for other in names for line in _lines_of(objects.read(new[other].oid), name))
    return tuple(place for place, _ in zip(places, range(3), strict=False))


def _lines_of(data: bytes, name: str) -> Iterator[int]:
    for word in (f"def {name}(".encode(), f"class {name}(".encode(), f"class {name}:".encode()):
        at = data.find(word)
        if at >= 0:
            yield data.count(b"\n", 0, at) + 1


def _changed(past: Past, path: str, wanted: Sequence[bytes]) -> tuple[str, str]:
    """The last release that still has the lines, and the next one, on the way from the pin to the judged one."""
    if not wanted:
        return "", ""
    ends = sorted((Version(past.pinned.version), Version(past.judged.version)))
    way = [r for r in past.releases if ends[0] <= Version(r.version) <= ends[1]]
    way.sort(key=lambda r: Version(r.version), reverse=Version(past.judged.version) == ends[0])
    last = ""
    for release in way:
        if not _has(past, release, path, wanted):
            return last, release.version if last else ""
        last = release.version
    return last, ""


def _has(past: Past, release: Release, path: str, wanted: Sequence[bytes]) -> bool:
    entry = past.blobs.objects.entry(release.tree, path)
    return entry is not None and b"".join(wanted) in past.blobs.objects.read(entry.oid)
