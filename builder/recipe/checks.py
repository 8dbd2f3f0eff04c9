"""Faults that need more than one key to see: pins, patches, architectures, instructions.

They read the raw tables and step over what has the wrong type, so that one run reports these
faults together with the structural ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from builder.model import Arch
from builder.recipe.problems import Problem, did_you_mean, listed

PINS = ("version", "commit", "git", "sdist", "sha256", "tree", "result_tree")
VERIFY_TABLES = ("archs", "instructions", "exceptions")
INHERITED = (*PINS, "git_tree", "patches", "vendored", "contains", "superseded")
_Table = Mapping[str, object]


@cache
def arch_facts() -> dict[str, dict[str, dict[str, list[str]]]]:
    """What each CUDA release compiles for and what instructions need: `archs.toml`."""
    return tomllib.loads(resources.files("builder.recipe").joinpath("archs.toml").read_text())


def cross_faults(raw: _Table, file: Path, root: Path) -> Iterator[Problem]:
    """Every fault that shows only between keys, or between the recipe and the files beside it."""
    for table, text in _all(raw, root):
        yield Problem(file, table, text)


def _all(raw: _Table, root: Path) -> Iterator[tuple[str, str]]:
    yield from _names(raw)
    for package in _tables(raw, "package"):
        label = f"[[package]] {_text(package, 'name')}"
        faults = (_pins(package), _source(raw, package), _patches(package, root), _files(raw, package), _refs(package))
        for group in (*faults, _superseded(package)):
            yield from ((label, text) for text in group)
    yield from (("[toolchain]", text) for text in _lock(raw, root))
    yield from (("[target]", text) for text in _archs(raw))
    yield from (("[[verify.instructions]]", text) for text in _instructions(raw))
    yield from _verified(raw)


def name_faults(raw: _Table, file: Path) -> Iterator[Problem]:
    """Packages that one file names twice; a child's would hide one another once merged."""
    names = [_text(package, "name") for package in _tables(raw, "package")]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(file, f"[[package]] {name}", "named twice")


def _names(raw: _Table) -> Iterator[tuple[str, str]]:
    names = [_text(package, "name") for package in _tables(raw, "package")]
    for wanted in _texts(raw, "packages"):
        if wanted not in names:
            yield "", f"packages: no [[package]] is named {wanted!r}{did_you_mean(wanted, names)}"


def _pins(package: _Table) -> Iterator[str]:
    if "source" in package:
        for key in INHERITED:
            if key in package:
                yield f"key {key!r} comes from its source {_text(package, 'source')}; take it out"
    else:
        for key in PINS:
            if key not in package:
                yield f"key {key!r} is missing"


def _source(raw: _Table, package: _Table) -> Iterator[str]:
    source, built = _text(package, "source"), _built(raw)
    if not source or package not in built:
        return
    others = {_text(other, "name"): other for other in built if other is not package}
    if source not in others:
        yield f"source: {source!r} is not among the packages built{did_you_mean(source, others)}"
    elif "source" in others[source]:
        yield f"source: {source!r} has a source itself; name {_text(others[source], 'source')!r}"


def _built(raw: _Table) -> list[_Table]:
    wanted = _texts(raw, "packages")
    return [package for package in _tables(raw, "package") if not wanted or _text(package, "name") in wanted]


def _patches(package: _Table, root: Path) -> Iterator[str]:
    folder = root / "patches"
    for patch in _texts(package, "patches"):
        if not (folder / patch).is_file():
            there = [path.relative_to(folder).as_posix() for path in folder.glob("*/*.patch")]
            yield f"patches: there is no patches/{patch}{did_you_mean(patch, there)}"


def _files(raw: _Table, package: _Table) -> Iterator[str]:
    name, version = _text(package, "name"), _version(_text(package, "version"))
    try:
        stated = parse_sdist_filename(_text(package, "sdist"))
    except (InvalidSdistFilename, InvalidVersion):
        stated = None
    if stated and version and stated != (canonicalize_name(name), version):
        yield f"sdist: {_text(package, 'sdist')} is not {name} {version}"
    yield from _prebuilt(raw, package, version)


def _prebuilt(raw: _Table, package: _Table, version: Version | None) -> Iterator[str]:
    wheel = _text(_table(package, "prebuilt"), "wheel")
    try:
        name, stated, _, tags = parse_wheel_filename(wheel)
    except (InvalidWheelFilename, InvalidVersion):
        return
    if version and (name, stated) != (canonicalize_name(_text(package, "name")), version):
        yield f"prebuilt.wheel: {wheel} is not {_text(package, 'name')} {version}"
    machine = _text(_table(raw, "target"), "platform").partition("-")[2]
    if machine and not any(tag.platform.endswith((machine, "any")) for tag in tags):
        yield f"prebuilt.wheel: {wheel} is not for {machine}"


def _refs(package: _Table) -> Iterator[str]:
    for external in _tables(package, "externals"):
        if ("commit" in external) == ("tag" in external):
            yield f"externals {_text(external, 'name')}: give either 'commit' or 'tag'"


def _superseded(package: _Table) -> Iterator[str]:
    names = [_text(entry, "name") for entry in _tables(package, "superseded")]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"superseded: {name} is named twice"


def _lock(raw: _Table, root: Path) -> Iterator[str]:
    lock = _text(_table(raw, "toolchain"), "lock")
    if lock and not (root / "recipes" / lock).is_file():
        locks = (path for path in root.glob("recipes/locks/*.toml") if not path.name.endswith(".in.toml"))
        there = [path.relative_to(root / "recipes").as_posix() for path in locks]
        yield f"lock: there is no recipes/{lock}{did_you_mean(lock, there)}"


def _archs(raw: _Table) -> Iterator[str]:
    cuda = _text(_table(raw, "toolchain"), "cuda")
    release = ".".join(cuda.split(".")[:2])
    known = arch_facts()["cuda"].get(release)
    if cuda and known is None:
        yield f"CUDA {cuda} is not known here; known are {listed(arch_facts()['cuda'])}: add its archs to archs.toml"
        return
    for arch in _arch_list(raw):
        plain = str(Arch(arch.major, arch.minor, arch.suffix))
        if known is not None and plain not in known["archs"]:
            yield f"cuda_arch: nvcc {release} does not know {plain}; it knows {listed(known['archs'])}"


def _instructions(raw: _Table) -> Iterator[str]:
    known, archs = arch_facts()["instruction"], _arch_list(raw)
    for rule in _tables(_table(raw, "verify"), "instructions"):
        needs = _text(rule, "needs")
        if needs and needs not in known:
            yield f"needs: {needs!r} is no instruction known here{did_you_mean(needs, known)}; known: {listed(known)}"
        elif needs and archs and not _can(archs[0], known[needs]["archs"]):
            yield (
                f"{_text(rule, 'object')} must hold {needs}, {known[needs]['what']}, which {archs[0]} does not have; "
                f"put one of {listed(known[needs]['archs'])} first in [target] cuda_arch"
            )


def _verified(raw: _Table) -> Iterator[tuple[str, str]]:
    """A rule of [verify] for a package that does not exist would never be asked."""
    verify, names = _table(raw, "verify"), [_text(package, "name") for package in _tables(raw, "package")]
    asked = [(f"[[verify.{key}]]", _text(rule, "package")) for key in VERIFY_TABLES for rule in _tables(verify, key)]
    asked += [("[verify] max_wheel_mb", name) for name in _table(verify, "max_wheel_mb")]
    for table, name in asked:
        if name and name not in names:
            yield table, f"package: no [[package]] is named {name!r}{did_you_mean(name, names)}"


def _can(arch: Arch, archs: list[str]) -> bool:
    return not archs or str(Arch(arch.major, arch.minor, arch.suffix)) in archs


def _arch_list(raw: _Table) -> list[Arch]:
    found = []
    for text in _texts(_table(raw, "target"), "cuda_arch"):
        try:
            found.append(Arch.parse(text))
        except ValueError:
            continue
    return found


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _text(table: _Table, key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def _texts(table: _Table, key: str) -> list[str]:
    value = table.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _table(table: _Table, key: str) -> _Table:
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def _tables(table: _Table, key: str) -> list[_Table]:
    value = table.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
