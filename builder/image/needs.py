"""Whether a set of wheels is whole: every requirement met by a wheel of the set, for the target's Python.

A lock that our wheels have outgrown is found here, before anything is built. The markers are
evaluated for the target, not for the machine that builds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from builder.archive import dist_info_file
from builder.errors import ArchiveError, RecipeError, WheelError
from builder.verify.installer import environment


@dataclass(frozen=True, slots=True)
class Project:
    """A wheel's name, version, requirements and the Pythons that it asks for."""

    name: NormalizedName
    version: Version
    requires: tuple[Requirement, ...]
    python: str = ""


def project_of(path: Path, filename: str = "") -> Project:
    """Read a wheel's METADATA; `filename` where the file itself is called otherwise. Raises WheelError."""
    try:
        name, version, _, _ = parse_wheel_filename(filename or path.name)
        data = dist_info_file(path, "METADATA")
        if data is None:
            raise ValueError("it has no METADATA")
        metadata = HeaderParser().parsestr(data.decode(errors="replace"))
        lines = metadata.get_all("Requires-Dist") or ()
        requires = tuple(Requirement(line) for line in lines)
    except (ArchiveError, ValueError, InvalidRequirement) as error:
        raise WheelError(
            f"this wheel does not say what it needs ({getattr(error, 'what', error)})",
            where=filename or str(path),
            remedy="fetch it again",
        ) from error
    return Project(name, version, requires, metadata.get("Requires-Python", ""))


def unmet(roots: Sequence[Project], locked: Sequence[Project], machine: str, python: str) -> list[str]:
    """Every requirement that the set does not meet, reached from the roots; one line each."""
    known: Mapping[NormalizedName, Project] = {project.name: project for project in (*locked, *roots)}
    marks = environment(machine, python)
    todo: list[tuple[Project, str]] = [(project, "") for project in roots]
    seen, problems = set(todo), list[str]()
    while todo:
        project, extra = todo.pop()
        if not _takes(project, python):
            problems.append(f"{project.name} {project.version} is for Python {project.python}, not {python}")
        for requirement in _asked(project, marks | {"extra": extra}):
            found = known.get(canonicalize_name(requirement.name))
            if found is None or not requirement.specifier.contains(found.version, prereleases=True):
                has = f"the lock has {found.version}" if found else "the lock has none"
                problems.append(f"{project.name} {project.version} needs {requirement}: {has}")
                continue
            fresh = {(found, more) for more in ("", *requirement.extras)} - seen
            seen |= fresh
            todo += sorted(fresh, key=lambda pair: (pair[0].name, pair[1]))
    return sorted(set(problems))


def _takes(project: Project, python: str) -> bool:
    try:
        return SpecifierSet(project.python).contains(f"{python}.99")
    except InvalidSpecifier:
        return True


def _asked(project: Project, marks: Mapping[str, str]) -> Iterator[Requirement]:
    for requirement in project.requires:
        if requirement.marker is None or requirement.marker.evaluate(dict(marks)):
            yield requirement


def hold_together(roots: Sequence[Project], locked: Sequence[Project], machine: str, python: str, lock: Path) -> None:
    """Raise RecipeError with every requirement that is not met."""
    problems = unmet(roots, locked, machine, python)
    if problems:
        raise RecipeError(
            "the image's lock does not fit the wheels:\n" + "\n".join(f"  - {line}" for line in problems),
            where=str(lock),
            remedy="make it again: python -m builder image lock recipe=NAME",
        )
