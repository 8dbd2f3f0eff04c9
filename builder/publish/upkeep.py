"""Care of an index over the years: yank, roll back, retire, refresh.

Nothing here breaks a lock: a rollback yanks (PEP 592), so that exact pins with hashes still
resolve, and gc leaves what a lock names. Bytes go later than their links, by a grace period
that covers readers with an old page and publishers at work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from builder.errors import PublishError, UsageError
from builder.publish import pages
from builder.publish.entry import IndexFile, Project, Retired
from builder.publish.index import change_project, html_of, list_projects, read_project, stamp, standing
from builder.publish.keep import pinned, superfluous
from builder.publish.locks import kept_digests, locked_digests
from builder.publish.shelf import Item, Shelf

GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Changed:
    """File names whose state changed, and the keys of the pages written."""

    files: tuple[str, ...]
    pages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """What gc took off the pages, and what it removed for good: keys and bytes."""

    retired: tuple[str, ...]
    deleted: tuple[str, ...]
    freed: int


def yank(index: Path | str | Shelf, filenames: Collection[str], reason: str = "") -> Changed:
    """Take files off offer; exact pins still find them. PublishError for a name the index lacks."""
    return _mark(index, filenames, reason)


def unyank(index: Path | str | Shelf, filenames: Collection[str]) -> Changed:
    """Put yanked files on offer again. PublishError for a name the index lacks."""
    return _mark(index, filenames, None)


def rollback(index: Path | str | Shelf, *, to: datetime | None = None, reason: str = "rolled back") -> Changed:
    """Yank every release that came after `to`; without it, the newest on offer.

    All projects go back together. A call that was killed is finished by the same call again, which
    takes back no second release. PublishError when nothing on offer is that new.
    """
    shelf, projects = _projects(index)
    half = _half_withdrawn(shelf, projects, reason)
    mended = refresh(shelf).pages
    names = {file.filename for file in _after(projects, to) if file.yanked is None} if to else _newest(projects, half)
    if not names and not half:
        raise PublishError(
            "there is nothing to roll back",
            where=str(index),
            expected=f"a file on offer that is newer than {stamp(to)}" if to else "a file on offer",
            remedy="give an earlier instant with to=…",
        )
    changed = _mark(shelf, names, reason)
    done = {*changed.files, *(file.filename for file in half)}
    return Changed(tuple(sorted(done)), tuple(dict.fromkeys((*mended, *changed.pages))))


def _half_withdrawn(shelf: Shelf, projects: Iterable[Project], reason: str) -> list[IndexFile]:
    """What a killed rollback has yanked, and pip and uv are still offered."""
    return [
        file
        for project in projects
        for file in project.files
        if file.yanked == reason and pages.offers(html_of(shelf, project.name), file)
    ]


def _newest(projects: Iterable[Project], half: Sequence[IndexFile]) -> set[str]:
    """What is on offer of the release that came last, or of the one that is half withdrawn."""
    offered = [file for project in projects for file in project.files if file.yanked is None]
    newest = max(half or offered, key=lambda file: file.upload_time, default=None)
    return {file.filename for file in offered if newest and _release(file) == _release(newest)}


def _after(projects: Sequence[Project], to: datetime) -> list[IndexFile]:
    """The files of releases that were not whole at that instant."""
    files = [file for project in projects for file in project.files]
    late = {_release(file) for file in files if file.upload_time > stamp(to)}
    return [file for file in files if _release(file) in late]


def _release(file: IndexFile) -> str:
    return file.release or file.upload_time


def refresh(index: Path | str | Shelf) -> Changed:
    """Make every derived page anew from the index's own state, and write those that differ."""
    shelf, names = standing(index)
    written = [page for name in names for page in change_project(shelf, name, lambda project: project)]
    return Changed((), tuple(written + list_projects(shelf, names)))


def gc(
    index: Path | str | Shelf,
    *,
    keep: int,
    locks: Sequence[Path] = (),
    grace: timedelta = GRACE,
    now: datetime | None = None,
) -> Collected:
    """Keep the `keep` newest releases on offer of each project, and all that the index's own locks and `locks` name.

    What came last is newest. Yanked files that came after the oldest of these stay too, and every version that a wheel
    that stays pins with `==`: what is left can be installed. Other files leave the pages now; their bytes, and
    leftovers of killed publishers, go once they have been unlinked for `grace`. A file name stays bound to its first
    bytes even then. Raises UsageError for keep < 1, PublishError for a lock without digests.
    """
    if keep < 1:
        raise UsageError(f"keep={keep} would empty the index", expected="keep=1 or more")
    (shelf, projects), moment = _projects(index), now or datetime.now(UTC)
    locked = locked_digests(locks)  # before anything changes, for one of them may be of no use
    stays = pinned(shelf, projects, keep, locked | kept_digests(shelf))
    retired = [gone for each in projects for gone in _retire(shelf, each.name, keep, stays, stamp(moment))]
    places = ("files", "locks", "simple")
    items = sorted((item for place in places for item in shelf.items(place)), key=lambda item: item.key)
    # pages are read after the files were listed: a publisher that links one meanwhile is seen
    doomed = unlinked(items, _projects(shelf)[1], moment - grace)
    deleted = [item for item in doomed if shelf.delete(item)]
    return Collected(tuple(sorted(retired)), tuple(i.key for i in deleted), sum(i.size for i in deleted))


def unlinked(items: Iterable[Item], projects: Iterable[Project], before: datetime) -> list[Item]:
    """Files that no page links, and were neither written nor retired after `before`."""
    linked: set[str] = set()
    lately: set[str] = set()
    for project in projects:
        linked |= {key for file in project.files for key in file.keys}
        lately |= {entry.sha256 for entry in project.retired if entry.since > stamp(before)}
    return [item for item in items if _is_waste(item, linked, lately) and item.written <= before]


def _is_waste(item: Item, linked: Collection[str], lately: Collection[str]) -> bool:
    parts = item.key.split("/")
    if parts[0] == "files":
        return item.key not in linked and (parts[-1].startswith(".") or parts[-2] not in lately)
    return parts[-1].startswith(".")


def _projects(index: Path | str | Shelf) -> tuple[Shelf, list[Project]]:
    shelf, names = standing(index)
    return shelf, [read_project(shelf, name) for name in names]


def _retire(shelf: Shelf, name: str, keep: int, locked: frozenset[str], since: str) -> list[str]:
    """Take off the page what its newest state has too much of; a yank, a publish or a lock meanwhile is seen.

    A lock that comes while the page is written is seen afterwards, and its files are put back. One that comes later
    still finds them gone, and says so.
    """
    gone: list[IndexFile] = []

    def change(project: Project) -> Project:
        gone[:] = superfluous(project, keep, locked | kept_digests(shelf))
        leaving = (Retired(file.filename, file.sha256, since) for file in gone)
        kept = tuple(file for file in project.files if file not in gone)
        return replace(project, files=kept, retired=(*project.retired, *leaving))

    change_project(shelf, name, change)
    kept = kept_digests(shelf) if gone else frozenset()
    back = [file for file in gone if file.sha256 in kept]
    if back:
        change_project(shelf, name, _returning(back))
    return [file.filename for file in gone if file not in back]


def _returning(files: Sequence[IndexFile]) -> Callable[[Project], Project]:
    def change(project: Project) -> Project:
        there, named = ({file.filename for file in each} for each in (project.files, files))
        missing = [file for file in files if file.filename not in there]
        retired = tuple(entry for entry in project.retired if entry.filename not in named)
        whole = sorted((*project.files, *missing), key=lambda file: file.filename)
        return replace(project, files=tuple(whole), retired=retired)

    return change


def _mark(index: Path | str | Shelf, filenames: Collection[str], yanked: str | None) -> Changed:
    shelf, projects = _projects(index)
    owners = _owners(projects, filenames)
    written: list[str] = []
    for name in owners:
        written += change_project(shelf, name, _marking(filenames, yanked))
    changed = {file.filename for before in owners.values() for file in before.files if file.filename in filenames}
    return Changed(tuple(sorted(changed)), tuple(written))


def _owners(projects: Iterable[Project], filenames: Collection[str]) -> Mapping[str, Project]:
    owners = {p.name: p for p in projects if any(file.filename in filenames for file in p.files)}
    missing = set(filenames) - {file.filename for project in owners.values() for file in project.files}
    if missing:
        raise PublishError(
            f"the index has no {', '.join(sorted(missing))}",
            expected="file names that its pages list",
            remedy="look them up in simple/<project>/index.json",
        )
    return owners


def _marking(filenames: Collection[str], yanked: str | None) -> Callable[[Project], Project]:
    def change(project: Project) -> Project:
        files = (replace(f, yanked=yanked) if f.filename in filenames else f for f in project.files)
        return replace(project, files=tuple(files))

    return change
