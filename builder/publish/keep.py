"""What gc leaves: each project's newest releases on offer, and the versions of other projects that these pin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, partial

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.publish.entry import IndexFile, Project
from builder.publish.shelf import Shelf

Pin = tuple[str, SpecifierSet]
"""A project, and which of its versions."""


def superfluous(project: Project, keep: int, locked: Collection[str]) -> list[IndexFile]:
    """The files of versions that came before the `keep` newest releases on offer, and are not locked.

    What came last is newest: two builds of a version may differ in a patch's digest alone, and digests have no order
    that means anything. With fewer releases on offer nothing goes, for a rollback can be undone, and who had pinned
    what it took back can install it.
    """
    offered = sorted(set(_arrivals(file for file in project.files if file.yanked is None).values()))
    if len(offered) < keep:
        return []
    came = _arrivals(project.files)
    return [file for file in project.files if came[file.version] < offered[-keep] and file.sha256 not in locked]


def pinned(shelf: Shelf, projects: Sequence[Project], keep: int, locked: Collection[str]) -> frozenset[str]:
    """The locked digests, and those of all that a wheel that stays pins with `==`, and that these pin in turn."""
    pins_of = cache(partial(_pins, shelf))
    kept = frozenset(locked)
    while True:
        gone = {project.name: superfluous(project, keep, kept) for project in projects}
        stays = {project.name: [f for f in project.files if f not in gone[project.name]] for project in projects}
        pins = {pin for files in stays.values() for file in files for pin in pins_of(file)}
        found = {f.sha256 for name, which in pins if name in gone for f in _fitting(which, stays[name], gone[name])}
        if found <= kept:
            return kept
        kept |= found


def _arrivals(files: Iterable[IndexFile]) -> dict[Version, str]:
    """When the last file of each version came; on one project's page, files with the same time came together."""
    came: dict[Version, str] = {}
    for file in files:
        came[file.version] = max(file.upload_time, came.get(file.version, ""))
    return came


def _fitting(which: SpecifierSet, stays: Sequence[IndexFile], gone: Sequence[IndexFile]) -> list[IndexFile]:
    """All files of one version that fits: of the newest that stays, or else of the newest that would go."""
    for files in (stays, gone):
        came = _arrivals(file for file in files if which.contains(file.version, prereleases=True))
        if came:
            newest = max(came, key=lambda version: came[version])
            return [file for file in (*stays, *gone) if file.version == newest]
    return []


def _pins(shelf: Shelf, file: IndexFile) -> frozenset[Pin]:
    """What a wheel's METADATA names with `==`, for any platform and extra; nothing where it cannot be read."""
    kept = shelf.read(f"{file.key}.metadata")
    lines = parse_email(kept.data)[0].get("requires_dist", []) if kept else []
    return frozenset(
        (canonicalize_name(each.name), each.specifier)
        for each in _requirements(lines)
        if any(part.operator in {"==", "==="} for part in each.specifier)
    )


def _requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            yield Requirement(line)
        except InvalidRequirement:  # the wheel came in with it, and no installer follows it either
            continue
