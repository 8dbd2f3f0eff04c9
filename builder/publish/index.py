"""VerifiedWheel → index: a static simple index that is whole at every moment.

Order is the whole trick. Wheels and their metadata go in first, under their digests; then each
project's JSON page, which decides; then its HTML page; the list of projects last. A page is
replaced by one rename and only over the version it was made from, so a publisher that is killed
or raced leaves pages whose every link exists.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from packaging.utils import canonicalize_name

from builder.errors import PublishError
from builder.model import Promise, VerifiedWheel
from builder.publish import pages
from builder.publish.entry import IndexFile, Offer, Project, damaged, project_from_page, read_offer, release_of
from builder.publish.shelf import FolderShelf, Kept, Shelf
from builder.report import counted

_UPLOADS = 8  # they wait for disk or network, not for a core
_ROOT_JSON, _ROOT_HTML = "simple/index.json", "simple/index.html"


@dataclass(frozen=True, slots=True)
class Published:
    """What one call changed: file names that came, names that were there, pages written.

    `withdrawn` names files that were offered and stay yanked: `unyank` puts them on offer again. `held` names the
    promised wheels that the index lacks: when there are any, nothing was changed.
    """

    index: str
    added: tuple[str, ...]
    unchanged: tuple[str, ...]
    withdrawn: tuple[str, ...]
    pages: tuple[str, ...]
    held: tuple[str, ...] = ()


def publish(
    wheels: Sequence[VerifiedWheel],
    index: Path | str | Shelf,
    *,
    promised: frozenset[Promise] = frozenset(),
    statements: Mapping[str, bytes] = MappingProxyType({}),
    now: datetime | None = None,
    hold: bool = False,
) -> Published:
    """Add wheels to the index; the same bytes again change nothing and write nothing.

    `promised` are wheels that must be there when something new comes. `statements` are provenance statements by
    file name; the first that comes with a wheel stays. `now` is the upload time of new files. With `hold`, wheels
    whose companions are missing wait outside instead of being refused.

    Raises PublishError before anything is written for a wheel that cannot be read, for a file name that the
    index has with other bytes, for a promise that is not kept, and for a statement of another wheel. When another
    publisher takes a file name for other bytes in the same moments, it is raised at that project's page:
    projects whose pages were written by then keep what they got.
    """
    shelf = open_shelf(index)
    offers = tuple(read_offer(wheel, statements.get(wheel.wheel.path.name, b"")) for wheel in wheels)
    before = {name: read_project(shelf, name) for name in _names(offers, promised)}
    refuse_clashes(offers, before)
    missing = missing_companions(offers, before, promised)
    if missing and hold:
        return Published(str(index), (), (), (), (), held=missing)
    refuse_broken_promises(missing)
    return _commit(shelf, offers, before, stamp(now), str(index))


def read_project(shelf: Shelf, name: str) -> Project:
    """A project as the index has it, empty when it is new; PublishError when damaged."""
    return _project_of(name, shelf.read(_json_key(name)))


def project_names(shelf: Shelf) -> list[str]:
    """Every project that has a page, listed or not."""
    keys = (item.key.split("/") for item in shelf.items("simple"))
    return sorted(parts[1] for parts in keys if len(parts) == 3 and parts[2] == "index.json")


def standing(index: Path | str | Shelf) -> tuple[Shelf, list[str]]:
    """An index that is there, and its projects; PublishError for a place that holds none."""
    shelf = open_shelf(index)
    names = project_names(shelf)
    if not names and shelf.read(_ROOT_JSON) is None:
        raise PublishError(
            "there is no index here",
            where=str(index),
            expected="a place that publish has written: simple/index.json and pages under simple/",
            remedy="correct index=PLACE; a new index begins with the first build or publish",
        )
    return shelf, names


def open_shelf(index: Path | str | Shelf) -> Shelf:
    """A folder, or `s3://BUCKET/PREFIX`; PublishError for another kind of address."""
    if isinstance(index, str) and "://" in index:
        from builder.publish.s3 import ObjectShelf

        return ObjectShelf.open(index)
    return FolderShelf(Path(index)) if isinstance(index, (str, Path)) else index


def refuse_clashes(offers: Iterable[Offer], before: Mapping[str, Project]) -> None:
    """A file name keeps its first bytes for ever, however it is spelt; raises PublishError naming every breach."""
    known = {name: sha256 for project in before.values() for name, sha256 in project.bound.items()}
    spelt = {release_of(name): name for name in known}
    problems = []
    for offer in offers:
        name = offer.file.filename
        first, other = known.setdefault(name, offer.file.sha256), spelt.setdefault(release_of(name), name)
        if first != offer.file.sha256:
            problems.append(f"{name}: published {first}, offered {offer.file.sha256}")
        if other != name:
            problems.append(f"{name}: published as {other}")
    if problems:
        raise PublishError(
            f"{counted(len(problems), 'file name')} taken by other bytes or another spelling",
            where="; ".join(problems),
            expected="the file that was published first: locks out there name it",
            remedy="raise the recipe's revision, so that the rebuilt wheel has a version of its own",
        )


def missing_companions(
    offers: Sequence[Offer], before: Mapping[str, Project], promised: Collection[Promise]
) -> tuple[str, ...]:
    """Every promised wheel that neither the index nor the offers have; none when the index has all offers already."""
    there = {file.filename for project in before.values() for file in project.files}
    if all(offer.file.filename in there for offer in offers):
        return ()
    wanted = ((canonicalize_name(each.project), each.platform, each.version) for each in sorted(promised))
    return tuple(
        f"{name} {version} for {platform}".replace("  ", " ")
        for name, platform, exact in wanted
        for version in ([exact] if exact else _versions_at_stake(name, offers))
        if not _has(name, version, platform, offers, before[name])
    )


def refuse_broken_promises(missing: Sequence[str]) -> None:
    """All that is promised, or PublishError and the last good ones stay."""
    if missing:
        raise PublishError(
            f"the recipe promises {counted(len(missing), 'wheel')} more",
            where="; ".join(missing),
            expected="all promised wheels and platforms of a version at once",
            remedy="build and verify the missing ones, then publish all of them in one call: publish add FOLDER…",
        )


def _names(offers: Iterable[Offer], promised: Iterable[Promise]) -> list[str]:
    return sorted({offer.project for offer in offers} | {canonicalize_name(each.project) for each in promised})


def _versions_at_stake(name: str, offers: Iterable[Offer]) -> list[str]:
    """The versions on offer; `` when there are none, which any published version satisfies."""
    return sorted({str(offer.file.version) for offer in offers if offer.project == name}) or [""]


def _has(name: str, version: str, platform: str, offers: Iterable[Offer], project: Project) -> bool:
    files = [*project.files, *(offer.file for offer in offers if offer.project == name)]
    return any(
        file.yanked is None and version in ("", str(file.version)) and file.platforms & {platform, "any"}
        for file in files
    )


def _commit(
    shelf: Shelf, offers: Sequence[Offer], before: Mapping[str, Project], upload_time: str, index: str
) -> Published:
    known = {file.filename: file for project in before.values() for file in project.files}
    written: list[str] = []
    release = _release(offers)
    _put_all(shelf, offers, known)
    names = sorted({offer.project for offer in offers})
    for name in names:
        mine = [replace(o.file, upload_time=upload_time, release=release) for o in offers if o.project == name]
        written += change_project(shelf, name, functools.partial(_with, files=mine))
    if written:  # gc may have taken a leftover of the same bytes before a page linked it
        _put_all(shelf, offers, known=frozenset(offer.file.filename for offer in offers))
    written += list_projects(shelf, names)
    offered = sorted({offer.file.filename for offer in offers})
    return Published(
        index=index,
        added=tuple(name for name in offered if name not in known),
        unchanged=tuple(name for name in offered if name in known),
        withdrawn=tuple(name for name in offered if name in known and known[name].yanked is not None),
        pages=tuple(written),
    )


def _release(offers: Iterable[Offer]) -> str:
    """What a call brings, by its bytes: a killed call that is run again is the same release."""
    digests = sorted({offer.file.sha256 for offer in offers})
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def _put_all(shelf: Shelf, offers: Sequence[Offer], known: Collection[str]) -> None:
    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(lambda offer: _put(shelf, offer, linked=offer.file.filename in known), offers))


def _put(shelf: Shelf, offer: Offer, *, linked: bool) -> None:
    """Files that no page links are written again even if present: gc must see them as fresh."""
    if not (linked and shelf.has(f"{offer.file.key}.metadata", len(offer.metadata))):
        shelf.put(f"{offer.file.key}.metadata", offer.metadata)
    if offer.statement and not (linked and shelf.has(offer.file.statement_key, len(offer.statement))):
        shelf.put(offer.file.statement_key, offer.statement)
    if not (linked and shelf.has(offer.file.key, offer.file.size)):
        shelf.put_file(offer.file.key, offer.path, offer.file.sha256)


def _with(project: Project, *, files: Sequence[IndexFile]) -> Project:
    """The project with those files too; one that is known keeps its first time, its yank and its statement.

    What comes is later than all that is there, whatever the publishers' clocks say: a rollback goes by these times.
    """
    bound = project.bound
    for file in files:
        if bound.get(file.filename, file.sha256) != file.sha256:
            raise PublishError(
                f"another publisher was first with {file.filename}, and with other bytes",
                where=f"published {bound[file.filename]}, offered {file.sha256}",
                expected="the bytes that were published first",
                remedy="raise the recipe's revision and build again",
            )
    offered = {file.filename: file.statement_sha256 for file in files}
    ours = (replace(f, statement_sha256=f.statement_sha256 or offered.get(f.filename, "")) for f in project.files)
    newest = max((file.upload_time for file in project.files), default="")
    fresh = (replace(file, upload_time=_after(newest, file.upload_time)) for file in files)
    known = {file.filename: file for file in (*fresh, *ours)}
    retired = tuple(entry for entry in project.retired if entry.filename not in known)
    return replace(project, files=tuple(known[name] for name in sorted(known)), retired=retired)


def _after(newest: str, time: str) -> str:
    """The time, or the next moment after the newest one where that is not earlier."""
    if time > newest:
        return time
    try:
        return stamp(datetime.fromisoformat(newest) + timedelta(microseconds=1))
    except (ValueError, OverflowError):
        return time


def change_project(shelf: Shelf, name: str, change: Callable[[Project], Project]) -> list[str]:
    """Apply `change` to a project's newest state, again if another publisher was faster.

    Returns the keys of the pages written: none when nothing changed and both pages agree.
    """
    written: list[str] = []
    while True:
        kept = shelf.read(_json_key(name))
        old = _project_of(name, kept)
        new = change(old)
        if new == old:
            break
        data = pages.project_json(replace(new, serial=old.serial + 1))
        if shelf.write(_json_key(name), data, over=kept):
            written.append(_json_key(name))
            break
    return written + _follow(shelf, _html_key(name), lambda: pages.project_html(read_project(shelf, name)))


def _follow(shelf: Shelf, key: str, render: Callable[[], bytes]) -> list[str]:
    """Bring a derived page up to its source. It is read before the source, so it never goes back."""
    while True:
        kept = shelf.read(key)
        data = render()
        if kept is not None and kept.data == data:
            return []
        if shelf.write(key, data, over=kept):
            return [key]


def list_projects(shelf: Shelf, names: Iterable[str]) -> list[str]:
    """See that the list names them; returns the keys of the pages written."""
    written: list[str] = []
    while True:
        kept = shelf.read(_ROOT_JSON)
        listed = _listed(kept)
        if kept is not None and listed >= set(names):
            break
        if shelf.write(_ROOT_JSON, pages.root_json(listed | set(names)), over=kept):
            written.append(_ROOT_JSON)
            break
    return written + _follow(shelf, _ROOT_HTML, lambda: pages.root_html(_listed(shelf.read(_ROOT_JSON))))


def _listed(kept: Kept | None) -> set[str]:
    if kept is None:
        return set()
    try:
        return {entry["name"] for entry in json.loads(kept.data)["projects"]}
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(_ROOT_JSON, error) from error


def _project_of(name: str, kept: Kept | None) -> Project:
    return Project(name) if kept is None else project_from_page(name, kept.data, _json_key(name))


def html_of(shelf: Shelf, name: str) -> bytes:
    """A project's page for pip and uv as it stands; empty when there is none."""
    kept = shelf.read(_html_key(name))
    return b"" if kept is None else kept.data


def _json_key(name: str) -> str:
    return f"simple/{name}/index.json"


def _html_key(name: str) -> str:
    return f"simple/{name}/index.html"


def stamp(moment: datetime | None) -> str:
    """UTC in ISO 8601 with microseconds, as PEP 700 writes it; None is now."""
    return (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
