"""Moves a series onto another release by three-way merge; stops at a conflict, and goes on from it.

A patch that applies exactly is taken exactly; any other is merged: what it changes between the
trees of the old release is brought into the new one. Patch files and recipe are written only
when the whole series is through and has been applied again, from its new bytes, exactly.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Literal

from builder.context import Context
from builder.errors import PatchError, UsageError
from builder.git import Entry, Objects
from builder.model import Package, SourceTree
from builder.patches.export import diff_bytes, exported
from builder.patches.load import Patch, load_series, path_of, read_patch
from builder.patches.pins import repinned
from builder.patches.semantic import broken, unmet
from builder.patches.series import judge_patch, judge_series, refuse
from builder.patches.state import State
from builder.patches.step import Step
from builder.patches.view import Blobs, View, write_tree
from builder.report import counted
from builder.store import atomic_write

Word = Literal["continue", "skip", "abort"]
RESUME: Final[tuple[Word, ...]] = ("continue", "skip", "abort")
"""How one goes on from a conflict."""

_LEAVING = {"skipped", "taken"}
_MARKERS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of one patch: the new tree before and after it (equal when it adds nothing).

    `outcome`: kept (same files, same bytes), exact (applied at its place), merged, by hand,
    contained, superseded; skipped and taken (upstream has all of it, among lines that the patch
    does not know) leave the recipe.
    """

    file: str
    outcome: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh under way or done.

    `chain` are the trees of the series on the old release, one more than there are patches;
    `digests` are of the patches' diffs: a header may be edited on the way. `moved` are the patches
    that are through. While it stands at a conflict, `conflicts` are the files
    to mend in `work`, `why` says what is the matter; when done, both are empty and `result_tree` is set.
    """

    package: str
    old_version: str
    new_version: str
    pins: dict[str, str]
    files: tuple[str, ...]
    digests: tuple[str, ...]
    chain: tuple[str, ...]
    moved: tuple[Moved, ...] = ()
    conflicts: tuple[str, ...] = ()
    why: str = ""
    work: str = ""
    stopped_tree: str = ""
    result_tree: str = ""
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """True when the series is through."""
        return bool(self.result_tree)

    @property
    def tree(self) -> str:
        """The new tree as far as the series has come."""
        return self.moved[-1].after if self.moved else self.pins["tree"]


def start(
    package: Package,
    source: SourceTree,
    target: Package,
    target_source: SourceTree,
    context: Context,
    root: Path,
    recipe_file: Path,
) -> Refresh:
    """Begin to move the series of `package` onto the release of `target` (the same with new pins).

    Both trees must be in one repository. Raises PatchError when the series does not apply where
    it is pinned, or a refresh of the package is under way.
    """
    with context.store.lock(f"refresh-{package.name}"):
        if _state_file(context, package.name).is_file():
            raise PatchError(
                f"a refresh of {package.name} is under way",
                where=str(_state_file(context, package.name).parent),
                remedy="`continue` when the conflict is mended, `skip` that patch, or `abort` the refresh",
            )
        patches = load_series(package, root)
        objects = Objects(source.git_dir)
        steps = judge_series(patches, Blobs(objects), source.tree)
        refuse(package, steps)
        begun = Refresh(
            package=package.name,
            old_version=package.version,
            new_version=target.version,
            pins=_pins(target, target_source.tree),
            files=package.patches,
            digests=tuple(patch.diff_sha256 for patch in patches),
            chain=tuple(_chain(objects, source.tree, steps)),
        )
        return _go_on(begun, package, patches, objects, context, root, recipe_file)


def resume(word: Word, package: Package, context: Context, root: Path, recipe_file: Path) -> Refresh:
    """Go on from a conflict with the work tree as it was edited, without that patch, or not at all."""
    with context.store.lock(f"refresh-{package.name}"):
        stopped = _read_state(context, package.name)
        if word == "abort":
            shutil.rmtree(_state_file(context, package.name).parent)
            return replace(stopped, why="aborted; nothing was changed")
        patches = load_series(package, root)
        if tuple(patch.diff_sha256 for patch in patches) != stopped.digests:
            raise PatchError(
                "the diffs of the patch files are others than when the refresh began",
                where=", ".join(package.patches),
                remedy="put them back, or `abort` and begin again",
            )
        objects = Objects(context.store.git_dir(package.source or package.name))
        file = stopped.files[len(stopped.moved)]
        if word == "skip":
            mended = Moved(file, "skipped", stopped.tree, stopped.tree)
        else:
            mended = Moved(file, "by hand", stopped.tree, _mended(stopped, objects))
            _must_hold(patches[len(stopped.moved)], objects, mended)
        going = replace(stopped, moved=(*stopped.moved, mended), conflicts=(), why="", stopped_tree="")
        return _go_on(going, package, patches, objects, context, root, recipe_file)


def _pins(target: Package, tree: str) -> dict[str, str]:
    keys = ("version", "commit", "sdist", "sha256")
    return {**{key: str(getattr(target, key)) for key in keys}, "tree": tree}


def _chain(objects: Objects, tree: str, steps: Sequence[Step]) -> Iterator[str]:
    yield tree
    for step in steps:
        if step.verdict.state.applies:
            tree = write_tree(objects, View(step.after.blobs, tree, step.after.changes()))
        yield tree


def under_way(context: Context, package: str) -> bool:
    """True when a refresh of the package stands at a conflict."""
    return _state_file(context, package).is_file()


# -- patch by patch ---------------------------------------------------------------------------


def _go_on(
    state: Refresh,
    package: Package,
    patches: Sequence[Patch],
    objects: Objects,
    context: Context,
    root: Path,
    recipe_file: Path,
) -> Refresh:
    blobs = Blobs(objects)
    while len(state.moved) < len(patches):
        moved, stop = _one(state, patches[len(state.moved)], objects, blobs)
        if moved is None:
            return _stop(state, stop, objects, context)
        state = replace(state, moved=(*state.moved, moved))
    done = _finish(state, package, patches, objects, root, recipe_file)
    shutil.rmtree(_state_file(context, package.name).parent, ignore_errors=True)
    return done


@dataclass(frozen=True, slots=True)
class _Stop:
    tree: str
    conflicts: tuple[str, ...]
    why: str


def _one(state: Refresh, patch: Patch, objects: Objects, blobs: Blobs) -> tuple[Moved | None, _Stop]:
    nothing = _Stop("", (), "")
    index, tree = len(state.moved), state.tree
    step = judge_patch(patch, View(blobs, tree))
    verdict = step.verdict.state
    if verdict in {State.CONTAINED, State.SUPERSEDED}:
        return Moved(patch.file, verdict.value, tree, tree), nothing
    before, after = state.chain[index : index + 2]
    if verdict.applies:
        same = all(objects.entry(before, path) == objects.entry(tree, path) for path in patch.diff.paths)
        return Moved(patch.file, "kept" if same else "exact", tree, write_tree(objects, step.after)), nothing
    if before == after:
        why = "it changed nothing on the old release, and is neither contained nor superseded on the new one"
        return None, _Stop(tree, (), why)
    merge = objects.merge(before, tree, after)
    if merge.conflicts:
        gone = f"; gone upstream or here: {', '.join(merge.gone)}" if merge.gone else ""
        return None, _Stop(merge.tree, merge.conflicts, f"{counted(len(merge.conflicts), 'file')} in conflict{gone}")
    moved = Moved(patch.file, "taken" if merge.tree == tree else "merged", tree, merge.tree)
    failed = _failed(patch, blobs, moved)
    return (None, _Stop(merge.tree, (), "; ".join(failed))) if failed else (moved, nothing)


def _failed(patch: Patch, blobs: Blobs, moved: Moved) -> tuple[str, ...]:
    """What is not as it should be after a patch was merged or mended by hand."""
    before, after = View(blobs, moved.before), View(blobs, moved.after)
    return (
        *broken(before, after, patch.diff.files),
        *(f"not true: {text}" for text in unmet(patch.header.expects, after)),
    )


def _must_hold(patch: Patch, objects: Objects, moved: Moved) -> None:
    failed = _failed(patch, Blobs(objects), moved)
    if failed:
        raise PatchError(
            f"{patch.file}, as mended, does not hold",
            where=patch.file,
            expected="; ".join(failed),
            remedy="mend the work tree further, or the header where it promises what no longer matters, and `continue`",
        )


# -- at a conflict ----------------------------------------------------------------------------


def _stop(state: Refresh, stop: _Stop, objects: Objects, context: Context) -> Refresh:
    folder = _state_file(context, state.package).parent
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / "work"
    objects.checkout(stop.tree, work)
    stopped = replace(state, conflicts=stop.conflicts, why=stop.why, work=str(work), stopped_tree=stop.tree)
    text = json.dumps(asdict(stopped), indent=1, sort_keys=True)
    atomic_write(_state_file(context, state.package), text.encode())
    return stopped


def _mended(stopped: Refresh, objects: Objects) -> str:
    """The work tree as a tree id, once no conflict marker is left in it."""
    work = Path(stopped.work)
    marked = [where for path in stopped.conflicts for where in _marks(work, path)]
    if marked:
        raise PatchError(
            f"conflict markers are left at {', '.join(marked)}",
            where=str(work),
            remedy="take one side or join both, remove the markers, and `continue`",
        )
    tree = objects.import_folder(work)
    links = {path: entry for path, entry in objects.files(stopped.stopped_tree).items() if entry.mode == 0o160000}
    tree = objects.edit(tree, dict[str, Entry | None](links)) if links else tree
    if tree == stopped.tree:
        raise PatchError(
            "the work tree has nothing of this patch",
            where=str(work),
            expected="its change, brought to where it belongs on the new release",
            remedy="edit the files and `continue`, or `skip` the patch",
        )
    return tree


def _marks(work: Path, path: str) -> Iterator[str]:
    file = work / path
    if file.is_file() and not file.is_symlink():
        for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
            if line.startswith(_MARKERS):
                yield f"{path}:{number}"


def _state_file(context: Context, package: str) -> Path:
    return context.store.root / "refresh" / package / "state.json"


def _read_state(context: Context, package: str) -> Refresh:
    try:
        raw = json.loads(_state_file(context, package).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no refresh of {package} is under way",
            where=str(_state_file(context, package)),
            remedy="begin one: patches refresh recipe=NAME to=VERSION",
        ) from error
    listed = {key: tuple(raw[key]) for key in ("files", "digests", "chain", "conflicts", "notes")}
    return Refresh(**{**raw, **listed, "moved": tuple(Moved(**item) for item in raw["moved"])})


# -- at the end -------------------------------------------------------------------------------


def _finish(
    state: Refresh, package: Package, patches: Sequence[Patch], objects: Objects, root: Path, recipe_file: Path
) -> Refresh:
    """Write the patch files and the recipe, after the new series was applied from its new bytes."""
    written = {m.file: _bytes(state, p, m, objects) for p, m in zip(patches, state.moved, strict=True)}
    kept = tuple(m.file for m in state.moved if m.outcome not in _LEAVING)
    fresh = [read_patch(file, written[file]) for file in kept]
    steps = judge_series(fresh, Blobs(objects), state.pins["tree"])
    refuse(package, steps)
    tree = list(_chain(objects, state.pins["tree"], steps))[-1]
    if tree != state.tree:
        raise PatchError(
            "the refreshed series makes another tree than the merge",
            expected=f"{state.tree}, found {tree}",
            remedy="report this with both trees: it is a fault of the export",
        )
    pins: dict[str, str | Sequence[str] | None] = {**state.pins, "result_tree": tree}
    if kept != state.files:
        pins["patches"] = kept
    if package.git_tree:
        pins["git_tree"] = None
    recipe = repinned(recipe_file.read_text(encoding="utf-8"), package.name, pins, str(recipe_file))
    for file in kept:
        path = path_of(package, root, file)
        if path.read_bytes() != written[file]:
            atomic_write(path, written[file])
    atomic_write(recipe_file, recipe.encode())
    return replace(state, result_tree=tree, notes=tuple(_notes(package, state)))


def _bytes(state: Refresh, patch: Patch, moved: Moved, objects: Objects) -> bytes:
    """The patch file for the new release; its diff stays as it is where the files are the same."""
    if moved.before == moved.after:
        return patch.data
    diff = patch.diff_bytes if moved.outcome == "kept" else diff_bytes(objects, moved.before, moved.after)
    version = state.new_version if patch.header.names_version(state.old_version) else ""
    return exported(patch, diff, version)


def _notes(package: Package, state: Refresh) -> Iterator[str]:
    for moved in state.moved:
        if moved.outcome in {"contained", "superseded"}:
            yield f"{moved.file} is {moved.outcome} in {state.new_version}: it may be taken out of the recipe"
        elif moved.outcome == "taken":
            yield f"{moved.file} is wholly in {state.new_version}, among other lines: it was taken out of the recipe"
    if package.prebuilt is not None:
        yield f"prebuilt still names {package.prebuilt.wheel}: pin the wheel of {state.new_version}"
    if package.externals:
        yield f"externals are still those of {state.old_version}: {', '.join(e.name for e in package.externals)}"
    if package.git_tree:
        yield "git_tree was removed: it was the tree of the old commit"
