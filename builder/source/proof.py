"""Compare a tree with its pins, and say where it differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pygit2

from builder.errors import SourceError, StoreError
from builder.git import Objects
from builder.model import Package
from builder.source.upstream import vendored_of

_SHOWN = 8


def check_tree(package: Package, objects: Objects, found: str, pin: str, where: str) -> None:
    """Raise SourceError when `found` is not the pinned tree (an all-zero pin is no pin)."""
    if found == pin or not pin.strip("0"):
        return
    raise SourceError(
        f"the source of {package.name} {package.version} has another tree than the pinned one",
        where=where,
        expected=f"tree {pin}, found {found}{_differences(objects, pin, found)}",
        remedy=f'find out who changed it; if it is right, set tree = "{found}" in the recipe and refresh the patches',
    )


def check_commit(package: Package, stated: str, where: str) -> None:
    """Raise SourceError when the sdist says it was made from another commit."""
    if stated and not (package.commit.startswith(stated) or stated.startswith(package.commit)):
        raise SourceError(
            f"the sdist of {package.name} {package.version} was made from another commit",
            where=where,
            expected=f"commit {package.commit}, it says {stated}",
            remedy="correct commit or sdist in the recipe: they must be of one release",
        )


def check_vendored(package: Package, objects: Objects, tree: str) -> None:
    """Raise SourceError when a bundled library is not of the pinned version, or absent."""
    for folder, version in package.vendored:
        found = _vendored_version(objects, tree, folder)
        if found != version:
            raise SourceError(
                f"{package.name} {package.version} bundles {folder} {found or '(no version found)'}, not {version}",
                where=f"{package.sdist}: {folder}",
                expected=f"version {version}",
                remedy="use the sdist that upstream published, or review the change and pin the new version",
            )


def _vendored_version(objects: Objects, tree: str, folder: str) -> str:
    known = vendored_of(folder)
    if known is None:
        raise SourceError(
            f"no rule says how {folder} names its version",
            where=folder,
            remedy="add it to builder/source/upstream.toml, or drop the pin from `vendored`",
        )
    entry = objects.entry(tree, f"{folder}/{known.file}")
    return known.version(objects.read(entry.oid).decode(errors="replace")) if entry else ""


def _differences(objects: Objects, pin: str, found: str) -> str:
    """The first paths that differ, when the pinned tree was here before."""
    if not objects.has(pin):
        return ""
    old, new = objects.files(pin), objects.files(found)
    changed = [
        _change(path, path in old, path in new)
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return f"; {', '.join(changed[:_SHOWN])}{more}"


def _change(path: str, before: bool, after: bool) -> str:
    return f"{path} {'changed' if before and after else 'removed' if before else 'added'}"


@contextmanager
def full_disk_is_said(objects: Objects) -> Iterator[None]:
    """Turn libgit2's complaints into a StoreError; its OSErrors carry a text and no number."""
    try:
        yield
    except (pygit2.GitError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise StoreError(
            "the disk is full" if "No space left" in str(error) else f"cannot write source objects: {error}",
            where=str(objects.git_dir),
            remedy="free some space, or remove that folder if it is damaged, and run again",
        ) from error
