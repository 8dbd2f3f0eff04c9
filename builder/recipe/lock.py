"""Toolchain locks: `recipes/locks/NAME.toml`, made from the wishes in `NAME.in.toml`.

A lock names every file by digest, for both kinds of machine that can compile (`host-…`,
`build-…`) and both that can be compiled for (`target-…`). It names no index: any that has
the same bytes will do. The writer is our own because the format is one flat, sorted table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, Field

from builder.errors import RecipeError
from builder.fetch import Candidate
from builder.model import LockedBase, LockedFile, Recipe
from builder.recipe.problems import Problem, listed, raise_for, read_toml
from builder.recipe.structure import faults
from builder.recipe.tables import Name, Pep440, Python, Sha256, Table, WheelName, distinct
from builder.store import atomic_write

MACHINES = ("x86_64", "aarch64")
_OLDEST_GLIBC, _NEWEST_GLIBC = 5, 99
_LEGACY = ("manylinux2014", "manylinux2010", "manylinux1")
_NOUN = "lock"

Role = Literal[
    "host-x86_64",
    "host-aarch64",
    "target-x86_64",
    "target-aarch64",
    "build-x86_64",
    "build-aarch64",
    "image-x86_64",
    "image-aarch64",
]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Candidates = Callable[[str], Iterable[Candidate]]


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(f"{value!r} is not a version specifier such as ==13.0.88") from error
    return value


class FileTable(Table):
    """One `[[file]]` of a lock."""

    project: Name
    version: Pep440
    filename: WheelName
    sha256: Sha256
    size: Annotated[int, Field(gt=0)]
    roles: Annotated[list[Role], AfterValidator(distinct), Field(min_length=1)]


class BaseTable(Table):
    """The `[base]` of an image's lock."""

    digest: Digest
    layers: Annotated[list[Digest], Field(min_length=1)]
    env: Annotated[list[str], Field(default_factory=list)]


class LockFile(Table):
    """A whole lock."""

    format: Literal[1]
    base: BaseTable | None = None
    file: Annotated[list[FileTable], Field(min_length=1)]


class WantTable(Table):
    """One wish: a project in some versions, for the machines of a role."""

    project: Name
    version: Annotated[str, AfterValidator(_specifier)]
    role: Literal["host", "target", "build"]


class WantsFile(Table):
    """The wishes of a lock: Python versions, newest glibc (2.x) that machines may have, and projects."""

    target_python: Python
    build_pythons: Annotated[list[Python], AfterValidator(distinct), Field(min_length=1)]
    glibc: Annotated[int, Field(ge=_OLDEST_GLIBC)]
    want: Annotated[list[WantTable], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Want:
    """A wish made plain: `pythons` are those that must be able to use the files, `glibc` the newest 2.x allowed."""

    project: str
    specifier: str
    role: str
    pythons: tuple[str, ...]
    glibc: int


def read_lock(path: Path) -> tuple[LockedFile, ...]:
    """The files of a lock; raises RecipeError with every problem."""
    raw = read_toml(path, _NOUN)
    raise_for([*faults(LockFile, raw, path), *_contradictions(raw, path)], _NOUN)
    return tuple(
        LockedFile(table.project, table.version, table.filename, table.sha256, table.size, tuple(table.roles))
        for table in LockFile.model_validate(raw).file
    )


def read_base(path: Path) -> LockedBase | None:
    """The base of an image's lock, when it names one; raises RecipeError as `read_lock` does."""
    raw = read_toml(path, _NOUN)
    raise_for(faults(LockFile, raw, path), _NOUN)
    base = LockFile.model_validate(raw).base
    return None if base is None else LockedBase(base.digest, tuple(base.layers), tuple(base.env))


def locked(recipe: Recipe, root: Path) -> tuple[LockedFile, ...]:
    """The files of the recipe's lock; raises RecipeError also when it pins another CUDA or torch than the recipe."""
    path, pin = root / "recipes" / recipe.toolchain.lock, recipe.toolchain
    files = read_lock(path)
    wanted = {"nvidia-cuda-nvcc": ".".join(pin.cuda.split(".")[:2]), "torch": pin.torch}
    problems = []
    for project, prefix in wanted.items():
        there = sorted({file.version for file in files if file.project == project})
        if not there or not all(SpecifierSet(f"=={prefix}.*").contains(version) for version in there):
            text = f"recipe {recipe.name} wants {prefix}, the lock has {listed(there) or 'none'}"
            problems.append(Problem(path, f"[[file]] {project}", text))
    raise_for(problems, _NOUN)
    return files


def for_role(files: Iterable[LockedFile], role: str, python: str = "") -> tuple[LockedFile, ...]:
    """The files of one role such as `build-x86_64`; with `python` ("3.12") only those that it can use."""
    ours = (file for file in files if role in file.roles)
    if not python:
        return tuple(ours)
    ranks = _ranks(role.partition("-")[2], python, _NEWEST_GLIBC)
    return tuple(file for file in ours if parse_wheel_filename(file.filename)[3] & ranks.keys())


def read_wants(path: Path) -> tuple[Want, ...]:
    """The wishes of a `.in.toml` file; raises RecipeError with every problem."""
    raw = read_toml(path, _NOUN)
    raise_for(faults(WantsFile, raw, path), _NOUN)
    file = WantsFile.model_validate(raw)
    pythons = {"build": tuple(file.build_pythons)}
    return tuple(
        Want(want.project, want.version, want.role, pythons.get(want.role, (file.target_python,)), file.glibc)
        for want in file.want
    )


def make_lock(wants: Sequence[Want], candidates: Candidates) -> tuple[LockedFile, ...]:
    """Pin each wish to the newest version that has a wheel for every machine and Python of its role.

    Raises RecipeError with every wish that cannot be met, and what `candidates` raises.
    """
    chosen: dict[str, tuple[str, Candidate, set[str]]] = {}
    problems = []
    on_index = cache(candidates)
    for want in wants:
        offers = _wheels(want, on_index(want.project))
        picked = _pick(want, offers)
        if picked is None:
            problems.append(_unmet(want, offers))
        for role, file in picked or ():
            chosen.setdefault(file.filename, (want.project, file, set()))[2].add(role)
    if problems:
        raise RecipeError("\n".join(problems), remedy="mend the wishes in the .in.toml file and lock again")
    return tuple(sorted((_locked(*entry) for entry in chosen.values()), key=_order))


def lock_text(files: Iterable[LockedFile], base: LockedBase | None = None) -> str:
    """The lock as TOML: the base of an image first, then sorted, one table a file, no index named."""
    tables = [_base_table(base)] if base else []
    tables += [_table(file) for file in sorted(files, key=_order)]
    return "\n".join(["# Made from the .in.toml file beside it; do not edit by hand.\nformat = 1\n", *tables])


def write_lock(path: Path, files: Iterable[LockedFile]) -> None:
    """Write the lock whole or not at all."""
    atomic_write(path, lock_text(files).encode())


def _order(file: LockedFile) -> tuple[str, str]:
    return (file.project, file.filename)


def _base_table(base: LockedBase) -> str:
    lists = (f"{name} = [\n{_lines(values)}]\n" for name, values in (("layers", base.layers), ("env", base.env)))
    return f"[base]\ndigest = {json.dumps(base.digest)}\n{''.join(lists)}"


def _lines(values: Iterable[str]) -> str:
    return "".join(f"    {json.dumps(value, ensure_ascii=False)},\n" for value in values)


def _table(file: LockedFile) -> str:
    roles = ", ".join(json.dumps(role) for role in sorted(file.roles))
    texts = (
        f"{key} = {json.dumps(getattr(file, key))}" for key in ("project", "version", "filename", "sha256", "size")
    )
    return "[[file]]\n" + "\n".join([*texts, f"roles = [{roles}]\n"])


def _locked(project: str, file: Candidate, roles: set[str]) -> LockedFile:
    version = str(parse_wheel_filename(file.filename)[1])
    return LockedFile(project, version, file.filename, file.sha256, file.size, tuple(sorted(roles)))


def _wheels(want: Want, files: Iterable[Candidate]) -> dict[Version, list[tuple[frozenset[Tag], Candidate]]]:
    """The wheels by version that the wish allows and that state digest and size, newest version first."""
    found: dict[Version, list[tuple[frozenset[Tag], Candidate]]] = {}
    for file in files:
        try:
            _, version, _, tags = parse_wheel_filename(file.filename)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if file.sha256 and file.size:
            found.setdefault(version, []).append((tags, file))
    allowed = SpecifierSet(want.specifier).filter(found)
    return {version: found[version] for version in sorted(allowed, reverse=True)}


def _pick(
    want: Want, offers: Mapping[Version, list[tuple[frozenset[Tag], Candidate]]]
) -> list[tuple[str, Candidate]] | None:
    places = [(machine, python) for machine in MACHINES for python in want.pythons]
    for wheels in offers.values():
        best = [(f"{want.role}-{machine}", _best(wheels, machine, python, want.glibc)) for machine, python in places]
        if all(file is not None for _, file in best):
            return [(role, file) for role, file in best if file is not None]
    return None


def _best(wheels: list[tuple[frozenset[Tag], Candidate]], machine: str, python: str, glibc: int) -> Candidate | None:
    """The wheel that an installer on that machine and Python would prefer."""
    ranks = _ranks(machine, python, glibc)
    fitting = [(min(ranks[tag] for tag in tags & ranks.keys()), file) for tags, file in wheels if tags & ranks.keys()]
    return min(fitting, key=lambda pair: (pair[0], pair[1].filename))[1] if fitting else None


@cache
def _ranks(machine: str, python: str, glibc: int) -> dict[Tag, int]:
    major, minor = (int(part) for part in python.split("."))
    platforms = [f"manylinux_2_{number}_{machine}" for number in range(glibc, _OLDEST_GLIBC - 1, -1)]
    platforms += [f"{name}_{machine}" for name in (*_LEGACY, "linux")]
    tags = [*cpython_tags((major, minor), platforms=platforms)]
    tags += compatible_tags((major, minor), interpreter=f"cp{major}{minor}", platforms=platforms)
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def _unmet(want: Want, offers: Mapping[Version, object]) -> str:
    wish = f"{want.project}{want.specifier} ({want.role})"
    if not offers:
        return f"{wish}: the index has no wheel of such a version with a digest"
    places = f"{listed(MACHINES)} and Python {listed(want.pythons)}"
    return f"{wish}: none of {listed(str(version) for version in offers)} has a wheel for all of {places}"


def _contradictions(raw: Mapping[str, object], path: Path) -> Iterator[Problem]:
    """Files named twice, and file names that are not of the stated project and version."""
    value = raw.get("file")
    tables = [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []
    names = Counter(str(table.get("filename")) for table in tables)
    for name in (name for name, count in names.items() if count > 1):
        yield Problem(path, f"[[file]] {name}", "named twice")
    for table in tables:
        try:
            project, version, _, _ = parse_wheel_filename(str(table.get("filename")))
            stated = (canonicalize_name(str(table.get("project"))), Version(str(table.get("version"))))
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if (project, version) != stated:
            yield Problem(path, f"[[file]] {table['filename']}", f"is not of {stated[0]} {stated[1]}")
