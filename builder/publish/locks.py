"""Locks that the index itself keeps, so that no gc can forget one.

Only the digests of files of this index are kept, for an index is read by many and a lock may say
more than they should know. A lock that comes again under its name is kept beside the older one, which machines out
there may still install from, until `lock remove` forgets both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import PublishError, UsageError
from builder.publish.index import read_project, standing
from builder.publish.shelf import Shelf

_PLACE = "locks"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True)
class Locks:
    """The names of the locks in question, and the file names on the pages that they keep there.

    `lost` are files that they name and gc has removed: who installs from such a lock does not get them.
    """

    locks: tuple[str, ...]
    files: tuple[str, ...]
    lost: tuple[str, ...] = ()


def add_locks(index: Path | str | Shelf, paths: Sequence[Path], name: str = "") -> Locks:
    """Keep what the lock files name for as long as they are kept, each under its file name, or all under `name`.

    Raises UsageError for a name that is none, PublishError for a lock that is of no use or names no file of the index.
    """
    shelf, projects = standing(index)
    known, lost = _files(shelf, projects)
    found = {path: locked_digests([path]) & (known.keys() | lost.keys()) for path in paths}
    names = {path: _checked(name or path.name) for path in paths}
    for path, digests in found.items():
        if not digests & known.keys():
            raise _useless(path, "it names no file of this index")
    for path, digests in found.items():
        data = "".join(f"{digest}\n" for digest in sorted(digests)).encode()
        shelf.put(f"{_PLACE}/{names[path]}/{hashlib.sha256(data).hexdigest()}", data)
    return _told(shelf, projects, names.values(), frozenset[str]().union(*found.values()))


def remove_locks(index: Path | str | Shelf, names: Sequence[str]) -> Locks:
    """Forget locks: gc may take what no other names. PublishError for a name that the index does not keep."""
    shelf, _ = standing(index)
    items = [item for item in shelf.items(_PLACE) if item.key.split("/")[1] in names]
    missing = set(names) - {item.key.split("/")[1] for item in items}
    if missing:
        raise PublishError(
            f"the index keeps no lock {', '.join(sorted(missing))}",
            where=str(index),
            expected=f"one of {', '.join(lock_names(shelf)) or 'none: it keeps no lock'}",
            remedy="publish lock list",
        )
    for item in items:
        shelf.delete(item)
    return Locks(tuple(sorted(set(names))), ())


def list_locks(index: Path | str | Shelf) -> Locks:
    """Every lock that the index keeps, and what these keep."""
    shelf, projects = standing(index)
    return _told(shelf, projects, lock_names(shelf), kept_digests(shelf))


def lock_names(shelf: Shelf) -> tuple[str, ...]:
    """The names of the locks that the index keeps."""
    return tuple(sorted({key.split("/")[1] for key in _keys(shelf)}))


def kept_digests(shelf: Shelf) -> frozenset[str]:
    """Every SHA-256 that a lock in the index names."""
    kept = [shelf.read(key) for key in _keys(shelf)]
    return frozenset(
        digest for each in kept if each for digest in _DIGEST.findall(each.data.decode("ascii", "replace"))
    )


def locked_digests(locks: Iterable[Path]) -> frozenset[str]:
    """Every SHA-256 that the lock files name: requirements with hashes, pylock.toml, uv.lock alike."""
    found: set[str] = set()
    for lock in locks:
        try:
            digests = _DIGEST.findall(lock.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise _useless(lock, str(error)) from error
        if not digests:
            raise _useless(lock, "no sha256 in it")
        found.update(digests)
    return frozenset(found)


def _keys(shelf: Shelf) -> list[str]:
    """A writer's half file is no lock yet."""
    keys = (item.key for item in shelf.items(_PLACE))
    return [key for key in keys if key.count("/") == 2 and not key.rpartition("/")[2].startswith(".")]


def _checked(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is no name for a lock", expected="letters, digits, dots and dashes", remedy="give one with name="
        )
    return name


def _files(shelf: Shelf, names: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """SHA-256 → file name of what is on the projects' pages now, and of what gc has taken off them."""
    projects = [read_project(shelf, name) for name in names]
    known = {file.sha256: file.filename for project in projects for file in project.files}
    retired = {entry.sha256: entry.filename for project in projects for entry in project.retired}
    return known, {sha256: name for sha256, name in retired.items() if sha256 not in known}


def _told(shelf: Shelf, projects: Iterable[str], names: Iterable[str], digests: Collection[str]) -> Locks:
    """What is there now: after a lock was written, so that what gc took in that moment is seen."""
    known, lost = _files(shelf, projects)
    kept, gone = (sorted(files[digest] for digest in digests if digest in files) for files in (known, lost))
    return Locks(tuple(sorted(set(names))), tuple(kept), tuple(gone))


def _useless(lock: Path, why: str) -> PublishError:
    return PublishError(
        f"a lock that gc should respect cannot be used: {why}",
        where=str(lock),
        expected="a lock file with sha256 digests of wheels in this index",
        remedy="make the lock with hashes (pip-compile --generate-hashes, uv lock, pip lock)",
    )
