"""One package to one wheel: kept by the content it is made of, compiled only when that is new."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from builder import __version__
from builder.compile import flashinfer, vllm
from builder.compile.assemble import Plan, assemble
from builder.compile.job import Job
from builder.compile.kept import keep_wheel, kept_wheel
from builder.compile.record import build_record, vendored
from builder.compile.shard import Share
from builder.compile.shared import Shared
from builder.compile.toolchain import Toolchain
from builder.compile.zipwrite import FORM
from builder.context import Context
from builder.errors import CompileError, SourceError
from builder.fetch import fetch
from builder.model import ExternalTree, LockedFile, Package, PatchedTree, Recipe, Wheel
from builder.recipe import NAMED, local_version
from builder.store import Store, key_of
from builder.supply import asked

Driver = Callable[[Job, Mapping[str, PatchedTree]], Path]

DRIVERS: Mapping[str, Driver] = {
    "vllm": vllm.build,
    "flashinfer-python": flashinfer.build_python,
    "flashinfer-jit-cache": flashinfer.build_jit_cache,
}

SharesOf = Callable[[Job, Mapping[str, PatchedTree], Share], Shared]

SHARES: Mapping[str, SharesOf] = {"vllm": vllm.compile_share, "flashinfer-jit-cache": flashinfer.compile_share}
"""Packages whose units several machines can share; the others have none."""

_BUILDER = Path(__file__).parents[1]
_REACHING = (
    *("compile", "supply"),
    *("archive.py", "git.py", "manylinux.py", "run.py", "inspect/elf.py", "inspect/facts.py", "recipe/label.py"),
    "supply/known.toml",
)
"""Our code, by folder or file, that reaches a wheel's bytes: its tag comes from the ELF reader and the levels, its bill
of materials from a table."""

_PACKED: Final = (FORM, version("auditwheel"))
"""Others' that do: how a wheel is packed, and the levels that its tag names."""


def _code() -> dict[str, str]:
    folders = (_BUILDER / name for name in _REACHING)
    paths = [path for place in folders for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return {str(path.relative_to(_BUILDER)): path.read_text(encoding="utf-8") for path in paths}


_RUNNING: Final = key_of(_code())
"""Read where it is imported: a file that is edited while a build runs is not the code that makes its wheels."""


@dataclass(frozen=True, slots=True)
class Order:
    """A package to compile: the recipe's trees and externals, the toolchain, jobs and the compiler cache."""

    recipe: Recipe
    package: Package
    trees: Mapping[str, PatchedTree]
    externals: tuple[ExternalTree, ...]
    toolchain: Toolchain
    jobs: int
    cache: Mapping[str, str]

    @property
    def tree(self) -> PatchedTree:
        """The tree that the package is built from: its own, or its source's."""
        return self.trees[self.package.source or self.package.name]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A wheel, and whether it came from the store without any compiler running."""

    wheel: Wheel
    cached: bool


def compile_package(order: Order, context: Context) -> Compiled:
    """The package's wheel, in the store. Raises CompileError, WheelError and FetchError."""
    key = _key(order)
    kept = kept_wheel(context.store, key)
    if kept is not None:
        return Compiled(kept, cached=True)
    driver = _driver(order.package)
    with tempfile.TemporaryDirectory(prefix="spark-wheels-") as scratch:
        job = _job(order, Path(scratch, "raw"), context)
        raw = driver(job, order.trees)
        plan = _plan(job, order.trees)
        wheel = assemble(raw, Path(scratch, "final"), plan, order.toolchain.compilers, context)
        return Compiled(keep_wheel(context.store, key, wheel), cached=False)


def compile_share(order: Order, share: Share, context: Context) -> Shared:
    """Compile a share of the package's units into the compiler cache.

    A wheel that is kept here is of no use to the machine that links, so it is not asked for.
    """
    units_of = SHARES.get(order.package.name)
    if units_of is None:
        return Shared()
    with tempfile.TemporaryDirectory(prefix="spark-wheels-") as scratch:
        return units_of(_job(order, Path(scratch, "raw"), context), order.trees, share)


def _driver(package: Package) -> Driver:
    if package.name not in DRIVERS:
        raise CompileError(
            f"no driver builds {package.name}",
            where="the recipe's packages",
            expected=f"one of {', '.join(DRIVERS)}",
            remedy="add a driver under builder/compile and name it in DRIVERS",
        )
    return DRIVERS[package.name]


def _versions(recipe: Recipe, package: Package) -> dict[str, str]:
    """The package's own version, and those that its wheel may name."""
    named = {package.name, *NAMED.get(package.name, ())}
    return {each.name: local_version(recipe, each) for each in recipe.packages if each.name in named}


def _job(order: Order, out: Path, context: Context) -> Job:
    versions = _versions(order.recipe, order.package)
    return Job(
        recipe=order.recipe,
        package=order.package,
        version=versions[order.package.name],
        toolchain=order.toolchain,
        context=context,
        out=out,
        jobs=order.jobs,
        sibling_versions=versions,
        externals=order.externals,
        cache=order.cache,
    )


def _plan(job: Job, trees: Mapping[str, PatchedTree]) -> Plan:
    siblings = {
        name: f"{name}=={version}" for name, version in job.sibling_versions.items() if name != job.package.name
    }
    return Plan(
        version=job.version,
        machine=job.recipe.target.machine,
        pins={**siblings, "torch": f"torch=={job.recipe.toolchain.torch}"},
        requires=job.package.requires,
        record=build_record(job, trees),
        prebuilt=job.prebuilt,
        prebuilt_wheel=_official(job),
    )


def _official(job: Job) -> Path | None:
    """The official wheel that parts are taken from, fetched by its digest."""
    package, prebuilt, context = job.package, job.prebuilt, job.context
    if prebuilt is None:
        return None
    context.report.note(f"{package.name}: parts from the official {prebuilt.wheel} (sha256 {prebuilt.sha256[:12]}…)")
    locked = LockedFile(package.name, package.version, prebuilt.wheel, prebuilt.sha256, size=0)
    return fetch(locked, context.store, context.report)


def _key(order: Order) -> str:
    return _content(order.recipe, order.package, order.trees, order.externals, order.toolchain.key)


def kept(recipe: Recipe, package: Package, trees: Mapping[str, PatchedTree], toolchain: str, store: Store) -> bool:
    """True when a build by the toolchain of that key, without externals, would find this wheel in the store."""
    try:
        return kept_wheel(store, _content(recipe, package, trees, (), toolchain)) is not None
    except SourceError:  # a tree that is not written yet: nothing was built from it
        return False


def _content(
    recipe: Recipe,
    package: Package,
    trees: Mapping[str, PatchedTree],
    externals: tuple[ExternalTree, ...],
    toolchain: str,
) -> str:
    """A key of all that the wheel's bytes depend on, our own code that makes them included."""
    parts = [*vendored(recipe, package, trees), *(external.tree for external in externals)]
    tree, asked_for = trees[package.source or package.name].tree, asked(recipe, package)
    return key_of([asked_for, tree, parts, toolchain, _versions(recipe, package), _RUNNING, _PACKED, __version__])
