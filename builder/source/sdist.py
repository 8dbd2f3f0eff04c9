"""The pinned sdist as a tree: fetched, unpacked safely, without what only sdists have."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from pathlib import Path

from builder.archive import unpack_sdist
from builder.context import Context
from builder.errors import SourceError
from builder.fetch import fetch
from builder.git import Objects
from builder.model import LockedFile, Package
from builder.source.proof import check_commit, check_tree
from builder.source.upstream import Sdist, sdist_of


def tree_of_sdist(package: Package, objects: Objects, context: Context) -> str:
    """The tree id of the sdist's content; raises as `fetch_source`."""
    locked = LockedFile(package.name, package.version, package.sdist, package.sha256, 0)
    archive = fetch(locked, context.store, context.report)
    known = sdist_of(package.name)
    with context.store.scratch() as folder:
        unpack_sdist(archive, folder)
        top = _top(folder, package)
        check_commit(package, _stated_commit(top, known), f"{package.sdist}: {known.commit_file}")
        _strip(top, known)
        tree = objects.import_folder(top)
    check_tree(package, objects, tree, package.tree, package.sdist)
    return tree


def stated_commit(package: Package, context: Context) -> str:
    """The upstream commit, often abbreviated, that the sdist says it was made from, or nothing."""
    known = sdist_of(package.name)
    archive = fetch(
        LockedFile(package.name, package.version, package.sdist, package.sha256, 0), context.store, context.report
    )
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.partition("/")[2] == known.commit_file:
                text = (tar.extractfile(member) or io.BytesIO()).read(1 << 20).decode(errors="replace")
                match = re.search(known.commit_pattern, text)
                return match[1] if match else ""
    return ""


def _top(folder: Path, package: Package) -> Path:
    entries = sorted(folder.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and not entries[0].is_symlink():
        return entries[0]
    raise SourceError(
        f"{package.sdist} is no sdist",
        where=package.sdist,
        expected=f"one top folder, found {', '.join(entry.name for entry in entries[:5]) or 'nothing'}",
        remedy="pin the sdist that upstream published",
    )


def _stated_commit(top: Path, known: Sdist) -> str:
    path = top / known.commit_file
    if not known.commit_file or not path.is_file():
        return ""
    match = re.search(known.commit_pattern, path.read_text(encoding="utf-8", errors="replace"))
    return match[1] if match else ""


def _strip(top: Path, known: Sdist) -> None:
    """Remove generated files; only paths that the patterns can mean are looked at."""
    levels = {pattern.count("/") for pattern in known.generated}
    for depth in levels:
        for path in sorted(top.glob("/".join(["*"] * (depth + 1)))):
            if known.is_generated(path.relative_to(top).as_posix()):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
