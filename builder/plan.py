"""What a build would do, told without doing any of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.compile import job_count
from builder.compile.costs import UnitCost, units_of
from builder.context import Context
from builder.model import Package, Recipe
from builder.patches import Overlap, Step, overlaps_of, status
from builder.recipe import local_version, locked
from builder.report import duration, size
from builder.source import here

Document = dict[str, Any]


def plan(recipe: Recipe, root: Path, context: Context, *, jobs: str) -> Document:
    """Sources, patches, toolchain, wheels, units and an estimate; nothing is fetched or written."""
    packages = [_package(recipe, package, root, context) for package in recipe.packages]
    count = job_count(jobs)
    seconds = sum(package["cpu_seconds"] for package in packages)
    longest = max((package["longest_seconds"] for package in packages), default=0.0)
    return {
        "version": 1,
        "recipe": recipe.name,
        "target": {"platform": recipe.target.platform, "cuda_arch": [str(arch) for arch in recipe.target.cuda_arch]},
        "packages": packages,
        "toolchain": _toolchain(recipe, root, context),
        "estimate": {"jobs": count, "cpu_seconds": seconds, "seconds": max(seconds / count, longest)},
    }


def text(document: Mapping[str, Any]) -> str:
    """The plan for people."""
    target = document["target"]
    lines = [f"{document['recipe']} for {target['platform']} ({', '.join(target['cuda_arch'])})"]
    if document.get("nothing_to_do"):
        lines.append("its wheels stand already: a build would do nothing")
    for package in document["packages"]:
        lines += _package_lines(package)
    tools = document["toolchain"]
    missing = f"{tools['missing']} to fetch, {size(tools['missing_bytes'])}" if tools["missing"] else "all here"
    lines.append(f"toolchain: CUDA {tools['cuda']}, torch {tools['torch']}, {tools['files']} files ({missing})")
    guess = document["estimate"]
    lines.append(
        f"estimate: {duration(guess['seconds'])} with {guess['jobs']} jobs from an empty compiler cache "
        f"({duration(guess['cpu_seconds'])} of compiling on one core)"
    )
    return "\n".join(lines)


def _package(recipe: Recipe, package: Package, root: Path, context: Context) -> Document:
    source = here(package, context)
    units = units_of(package.name, package.components)
    own = not package.source
    steps = status(package, source, root)[0] if own and source else ()
    return {
        "name": package.name,
        "version": local_version(recipe, package),
        "source": package.sdist if own else f"tree of {package.source}",
        "source_here": source is not None,
        "patches": _patches(package, steps) if own else [],
        "overlaps": [_overlap(pair) for pair in overlaps_of(steps)],
        "components": list(package.components),
        "units": len(units),
        "cpu_seconds": sum(unit.seconds for unit in units),
        "longest_seconds": max((unit.seconds for unit in units), default=0.0),
        "slowest": [f"{unit.component} {unit.unit} {unit.seconds:.0f} s" for unit in _slowest(units)],
    }


def _slowest(units: Iterable[UnitCost]) -> list[UnitCost]:
    return sorted(units, key=lambda unit: -unit.seconds)[:3]


def _overlap(pair: Overlap) -> tuple[str, str]:
    """The sentence and the relation; patches that share no more than a file are told to machines only."""
    where = {"same": "the same lines", "near": "neighbouring lines", "file": "other lines"}[pair.relation]
    return f"{pair.first} and {pair.second} change {where} of {pair.path}; order: {pair.order}", pair.relation


def _patches(package: Package, steps: Sequence[Step]) -> list[Document]:
    """Each patch with its state, or `unknown` while the source is not here."""
    if not steps:
        return [{"file": file, "state": "unknown until the source is fetched"} for file in package.patches]
    return [{"file": step.verdict.file, "state": step.verdict.label} for step in steps]


def _toolchain(recipe: Recipe, root: Path, context: Context) -> Document:
    from builder.compile.toolchain import files_for

    files = files_for(locked(recipe, root), recipe.target.machine)
    missing = [file for file in files if context.store.blob(file.sha256) is None]
    return {
        "cuda": recipe.toolchain.cuda,
        "torch": recipe.toolchain.torch,
        "files": len(files),
        "missing": len(missing),
        "missing_bytes": sum(file.size for file in missing),
    }


def _package_lines(package: Mapping[str, Any]) -> list[str]:
    state = "here" if package["source_here"] else "to fetch"
    lines = [f"{package['name']} {package['version']}", f"  source: {package['source']} ({state})"]
    lines += [f"  patch {patch['file']}: {patch['state']}" for patch in package["patches"]]
    lines += [f"  overlap: {told}" for told, relation in package["overlaps"] if relation != "file"]
    if package["units"]:
        lines.append(f"  {package['units']} units, {duration(package['cpu_seconds'])} on one core; slowest:")
        lines += [f"    {unit}" for unit in package["slowest"]]
    return lines
