"""The ordered stages as one visible tuple, and the rules of resuming.

A stage is resumed by content: each keeps its result in the store under a key of what it read,
so a killed or repeated run does again only what is not there.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from builder import compile as compiling
from builder import publish
from builder.context import Context
from builder.model import ExternalTree, Package, PatchedTree, Recipe, SourceTree, VerifiedWheel, Wheel
from builder.patches import apply_series
from builder.recipe import locked
from builder.recipe.promise import promises
from builder.run import Halt
from builder.source import ExternalsMode, Mode, fetch_externals, fetch_source
from builder.store import atomic_write, sha256_of
from builder.supply import SUFFIX
from builder.verify import verify_wheel

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Options:
    """How to build, as the command line says it; `root` is the checkout with recipes/ and patches/."""

    root: Path
    out: Path
    index: str
    source: Mode = "sdist"
    toolchain: compiling.Kind = "index"
    externals: ExternalsMode = "auto"
    jobs: str = "auto"


@dataclass(frozen=True, slots=True)
class Sourced:
    """The recipe with its upstream trees, by package, and the externals of each package."""

    recipe: Recipe
    trees: Mapping[str, SourceTree]
    externals: Mapping[str, tuple[ExternalTree, ...]]


@dataclass(frozen=True, slots=True)
class Patched:
    """The same with every series applied."""

    recipe: Recipe
    trees: Mapping[str, PatchedTree]
    externals: Mapping[str, tuple[ExternalTree, ...]]


@dataclass(frozen=True, slots=True)
class Built:
    """Wheels that nobody has checked, and which of them came from the store."""

    patched: Patched
    wheels: Mapping[str, Wheel]
    cached: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verified:
    """Wheels with a good verdict."""

    built: Built
    wheels: Mapping[str, VerifiedWheel]


@dataclass(frozen=True, slots=True)
class Shipped:
    """Where the verified wheels are: a folder of their own, and the index, unless it waits for the wheels in `held`."""

    verified: Verified
    folder: Path
    files: tuple[Path, ...]
    index: str
    held: tuple[str, ...] = ()


def fetch_sources(recipe: Recipe, options: Options, context: Context) -> Sourced:
    """Bring every upstream tree that the recipe's packages need, proven to be the pinned one."""
    own = [package for package in recipe.packages if not package.source]
    trees = {p.name: fetch_source(p, context, mode=options.source) for p in own}
    externals = {p.name: fetch_externals(p, context, mode=options.externals) for p in own}
    return Sourced(recipe, trees, externals)


def apply_patches(sourced: Sourced, options: Options, context: Context) -> Patched:
    """Apply each package's series exactly; nothing is changed by one that does not apply."""
    own = [package for package in sourced.recipe.packages if not package.source]
    trees = {
        p.name: apply_series(p, sourced.trees[p.name], context, options.root, accept=_has_own_git_tree(p, options))
        for p in own
    }
    for tree in trees.values():
        for patch in tree.applied:
            context.report.note(f"{patch.file}: {patch.state}")
    return Patched(sourced.recipe, trees, sourced.externals)


def _has_own_git_tree(package: Package, options: Options) -> bool:
    """True when the commit's tree is pinned beside the sdist's, and `result_tree` is of the sdist's.

    The result then follows from two pins that were proven: that tree, and the patches' digests.
    """
    return options.source == "git" and bool(package.git_tree)


def compile_wheels(patched: Patched, options: Options, context: Context) -> Built:
    """Lay out the toolchain and make each package's wheel, or take it from the store."""
    with _drawn(patched.recipe, context):
        results = _each(patched, options, context, compiling.compile_package)
    cached = frozenset(name for name, result in results.items() if result.cached)
    return Built(patched, {name: result.wheel for name, result in results.items()}, cached)


def _each(
    patched: Patched, options: Options, context: Context, make: Callable[[compiling.Order, Context], _Result]
) -> dict[str, _Result]:
    """What `make` gives for each package, with the toolchain laid out and the compiler cache running."""
    recipe = patched.recipe
    with context.report.step("toolchain", inside=True):
        toolchain = compiling.prepare(recipe, locked(recipe, options.root), context, kind=options.toolchain)
    device = recipe.target.cuda_arch[0]
    gated = compiling.governed(context, f"{device.major}.{device.minor}")
    with gated as gate, compiling.compiler_cache(toolchain, context) as cache:
        made = _made(_chains(_orders(patched, options, toolchain, {**cache, **gate}), options.jobs), context, make)
    return {package.name: made[package.name] for package in recipe.packages}


def _orders(
    patched: Patched, options: Options, toolchain: compiling.Toolchain, cache: Mapping[str, str]
) -> Iterator[compiling.Order]:
    for package in patched.recipe.packages:
        yield compiling.Order(
            recipe=patched.recipe,
            package=package,
            trees=patched.trees,
            externals=patched.externals.get(package.name, ()),
            toolchain=toolchain,
            jobs=compiling.units_in_hand(options.jobs),
            cache=cache,
        )


def _chains(orders: Iterable[compiling.Order], jobs: str) -> list[list[compiling.Order]]:
    """Packages by source: those of one share its checkout, so that they go one after another.

    All do so where a number of units at once is asked for, which each chain would have in hand for itself.
    """
    found: dict[str, list[compiling.Order]] = {}
    for order in orders:
        source = order.package.source or order.package.name
        found.setdefault(source if jobs == "auto" else "", []).append(order)
    return list(found.values())


def _made(
    chains: Sequence[Sequence[compiling.Order]],
    context: Context,
    make: Callable[[compiling.Order, Context], _Result],
) -> dict[str, _Result]:
    """What `make` gives by package, all chains at the same time: the tail of one is filled by another's units."""
    halt = Halt()
    inside = replace(context, run=halt.over(context.run))
    parts = compiling.together([partial(_in_turn, chain, inside, make) for chain in chains], halt.call)
    return {name: result for part in parts for name, result in part.items()}


def _in_turn(
    orders: Sequence[compiling.Order], context: Context, make: Callable[[compiling.Order, Context], _Result]
) -> dict[str, _Result]:
    results = {}
    for order in orders:
        with context.report.step(f"compile {order.package.name}", inside=True):
            results[order.package.name] = make(order, context)
    return results


@contextmanager
def _drawn(recipe: Recipe, context: Context) -> Iterator[None]:
    """Draw what was compiled meanwhile, also when it failed."""
    try:
        yield
    finally:
        compiling.write_trace(context.logs, f"{recipe.name}: what was compiled, and when")


def verify_wheels(built: Built, options: Options, context: Context) -> Verified:
    """Prove each wheel from its own bytes; a bad verdict stops the line."""
    del options
    recipe = built.patched.recipe
    return Verified(
        built,
        {p.name: verify_wheel(built.wheels[p.name], recipe, p, context) for p in recipe.packages},
    )


def publish_wheels(verified: Verified, options: Options, context: Context) -> Shipped:
    """Put the wheels, each with its provenance statement, into their folder and into the index."""
    recipe = verified.built.patched.recipe
    folder = options.out / recipe.name / "wheels"
    wheels = tuple(verified.wheels.values())
    files = tuple(_place(each.wheel, folder) for each in wheels)
    statements = publish.statements(wheels, recipe, options.root)
    papers = {folder / f"{name}{SUFFIX}": data for name, data in statements.items()}
    for path, data in papers.items():
        atomic_write(path, data)
    for stale in {*folder.glob("*.whl"), *folder.glob(f"*{SUFFIX}")} - {*files, *papers}:
        stale.unlink()
    promised = promises([recipe], {(recipe.name, package.name) for package in recipe.packages})
    published = publish.publish(wheels, options.index, promised=promised, statements=statements, hold=True)
    waits = f"waits for {', '.join(published.held)}" if published.held else f"{len(published.added)} added"
    context.report.note(f"index: {options.index} ({waits})")
    return Shipped(verified, folder, files, options.index, published.held)


@dataclass(frozen=True, slots=True)
class Stage:
    """One arrow of the line: its name and the function that makes the next record."""

    name: str
    run: Callable[[Any, Options, Context], Any]


LINE: tuple[Stage, ...] = (
    Stage("source", fetch_sources),
    Stage("patches", apply_patches),
    Stage("compile", compile_wheels),
    Stage("verify", verify_wheels),
    Stage("publish", publish_wheels),
)
"""recipe → sources → patched trees → wheels → verified wheels → index. A test holds the types together."""


def build(recipe: Recipe, options: Options, context: Context) -> dict[str, object]:
    """Run the whole line; returns the summary document. Raises the error of the stage that failed."""
    started = time.monotonic()
    value: Any = recipe
    for stage in LINE:
        with context.report.step(f"{stage.name} {recipe.name}"):
            value = stage.run(value, options, context)
    return _document(value, context, time.monotonic() - started)


def compile_share(recipe: Recipe, options: Options, context: Context, share: compiling.Share) -> dict[str, object]:
    """Compile one machine's share of the units into the compiler cache, and no wheel; returns the summary document.

    Raises StoreError when an object did not reach the cache, beside what a build raises.
    """
    started = time.monotonic()
    patched = apply_patches(fetch_sources(recipe, options, context), options, context)
    with _drawn(recipe, context), context.report.step(f"compile {recipe.name}"):
        done = _each(patched, options, context, lambda order, inside: compiling.compile_share(order, share, inside))
    compiling.check_written(context, str(share))
    return {
        "version": 1,
        "recipe": recipe.name,
        "shard": {"number": share.number, "count": share.count},
        "packages": [
            {"name": name, "units": list(part.units), "of": part.total, "cpu_seconds": round(part.seconds, 1)}
            for name, part in done.items()
        ],
        **_effort(context, time.monotonic() - started),
    }


def _place(wheel: Wheel, folder: Path) -> Path:
    place = folder / wheel.path.name
    if not (place.is_file() and place.stat().st_size == wheel.size and sha256_of(place) == wheel.sha256):
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{wheel.path.name}.part"
        shutil.copyfile(wheel.path, partial)
        partial.replace(place)
    return place


def _document(shipped: Shipped, context: Context, seconds: float) -> dict[str, object]:
    built = shipped.verified.built
    recipe = built.patched.recipe
    return {
        "version": 1,
        "recipe": recipe.name,
        "target": {"platform": recipe.target.platform, "cuda_arch": [str(arch) for arch in recipe.target.cuda_arch]},
        "wheels": [_wheel_entry(package, shipped) for package in recipe.packages],
        "folder": str(shipped.folder),
        "index": shipped.index,
        "held": list(shipped.held),
        **_effort(context, seconds),
    }


def _effort(context: Context, seconds: float) -> dict[str, object]:
    """Where the logs are, what was counted and how long it took; the same for a build and for a share of one."""
    traced = compiling.traced(context.logs)
    timings = {name: round(taken, 1) for name, taken in context.report.timings.items()}
    return {
        "logs": str(context.logs),
        "trace": None if traced is None else str(traced.trace),
        "page": None if traced is None else str(traced.page),
        "units": {} if traced is None else traced.units,
        "counts": dict(context.report.counters),
        "seconds": timings | {"total": round(seconds, 1)},
    }


def _wheel_entry(package: Package, shipped: Shipped) -> dict[str, object]:
    built = shipped.verified.built
    wheel, verdict = built.wheels[package.name], shipped.verified.wheels[package.name].verdict
    taken = package.prebuilt if package.prebuilt and not built.patched.externals.get(package.name) else None
    tree = built.patched.trees[package.source or package.name]
    return {
        "name": wheel.name,
        "version": wheel.version,
        "file": wheel.path.name,
        "sha256": wheel.sha256,
        "size": wheel.size,
        "from_store": package.name in built.cached,
        "archs": {path: list(archs) for path, archs in sorted(verdict.archs.items())},
        "patches": [asdict(patch) for patch in tree.applied],
        "prebuilt": None if taken is None else {"wheel": taken.wheel, "sha256": taken.sha256, "reason": taken.reason},
    }
