"""What a build would do, told without doing any of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.compile import Kind, job_count
from builder.compile.ahead import left_out
from builder.compile.costs import UnitCost, units_of
from builder.context import Context
from builder.errors import ToolchainError
from builder.model import Package, PatchedTree, Recipe
from builder.patches import Overlap, Result, Step, overlaps_of, result_of, standings, status
from builder.recipe import local_version, locked
from builder.report import counted, duration, size
from builder.source import Mode, here

Document = dict[str, Any]


def plan(
    recipe: Recipe, root: Path, context: Context, *, jobs: str, source: Mode = "sdist", toolchain: Kind = "index"
) -> Document:
    """Sources, patches, toolchain, wheels, units and an estimate; nothing is fetched or written.

    `findings` are what would stop a build, each with its next step.
    """
    results: dict[str, Result] = {}
    packages = [_package(recipe, package, root, context, source, results) for package in recipe.packages]
    kept = _kept(recipe, root, context, results, toolchain)
    for package in packages:
        package["wheel_kept"] = package["name"] in kept
    count = job_count(jobs)
    todo = [package for package in packages if not package["wheel_kept"]]
    seconds = sum(package["cpu_seconds"] for package in todo)
    longest = max((package["longest_seconds"] for package in todo), default=0.0)
    return {
        "version": 1,
        "recipe": recipe.name,
        "target": {"platform": recipe.target.platform, "cuda_arch": [str(arch) for arch in recipe.target.cuda_arch]},
        "packages": packages,
        "findings": [finding for package in packages for finding in package.pop("findings")],
        "toolchain": _toolchain(recipe, root, context, toolchain),
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
    for found in document["findings"]:
        lines += [f"a build would stop: {found['message']}", f"  next: {found['next']}"]
    tools = document["toolchain"]
    missing = f"{tools['missing']} to fetch, {size(tools['missing_bytes'])}" if tools["missing"] else "all here"
    cuda = "this machine's CUDA" if tools["kind"] == "system" else f"CUDA {tools['cuda']}"
    lines.append(f"toolchain: {cuda}, torch {tools['torch']}, {counted(tools['files'], 'file')} ({missing})")
    lines.append(_from_store(document))
    guess = document["estimate"]
    lines.append(
        f"estimate: {duration(guess['seconds'])} with {counted(guess['jobs'], 'job')} from an empty compiler cache "
        f"({duration(guess['cpu_seconds'])} of compiling on one core)"
    )
    return "\n".join(lines)


def _kept(recipe: Recipe, root: Path, context: Context, results: Mapping[str, Result], kind: Kind) -> frozenset[str]:
    """Packages whose finished wheels a build would take from the store.

    With an external from git the answer is no: its tree is known only once it was fetched.
    """
    from builder.compile.host import installed_compilers
    from builder.compile.package import kept
    from builder.compile.toolchain import toolchain_key

    compilers = installed_compilers(recipe.target.machine, context) if results else None
    if compilers is None:
        return frozenset()
    trees = {
        name: PatchedTree(name, context.store.git_dir(name), "", "", result.found, ())
        for name, result in results.items()
    }
    try:
        key = toolchain_key(recipe, locked(recipe, root), kind, compilers)
    except ToolchainError:  # no CUDA is installed here: nothing was built with it
        return frozenset()
    known = [package for package in recipe.packages if (package.source or package.name) in trees]
    return frozenset(p.name for p in known if kept(recipe, p, trees, key, context.store))


def _from_store(document: Mapping[str, Any]) -> str:
    """How much of the build the store has already: wheels, sources, files of the toolchain."""
    packages, tools = document["packages"], document["toolchain"]
    wheels = sum(package["wheel_kept"] for package in packages)
    sources = [package for package in packages if not package["source"].startswith("tree of ")]
    there = sum(package["source_here"] for package in sources)
    return (
        f"from the store: {wheels} of {len(packages)} wheels, {there} of {len(sources)} sources, "
        f"{tools['files'] - tools['missing']} of {tools['files']} files of the toolchain"
    )


def _package(
    recipe: Recipe, package: Package, root: Path, context: Context, mode: Mode, results: dict[str, Result]
) -> Document:
    source = here(package, context, mode=mode)
    units = units_of(package.name, package.components)
    own = not package.source
    steps = status(package, source, root)[0] if own and source else ()
    result = result_of(package, source, steps) if own and source else None
    if result is not None:
        results[package.name] = result
    origin = package.sdist if mode == "sdist" else f"commit {package.commit}"
    return {
        "name": package.name,
        "version": local_version(recipe, package),
        "source": origin if own else f"tree of {package.source}",
        "source_here": source is not None,
        "patches": _patches(package, steps) if own else [],
        "overlaps": [_overlap(pair) for pair in overlaps_of(steps)],
        "superseded": [
            {"name": watch.name, "state": told.state.value}
            for watch, told in (standings(package, source) if own and source else ())
        ],
        "findings": _findings(package, steps, result, mode),
        "components": list(package.components),
        "left_out": list(left_out(package.components)) if package.name == "flashinfer-jit-cache" else [],
        "units": sum(unit.units for unit in units),
        "cpu_seconds": sum(unit.seconds * unit.units for unit in units),
        "longest_seconds": max((unit.seconds for unit in units), default=0.0),
        "slowest": [_cost(unit) for unit in _slowest(units)],
    }


def _findings(package: Package, steps: Sequence[Step], result: Result | None, mode: Mode) -> list[Document]:
    bad = [step for step in steps if not step.verdict.state.good]
    if bad:
        message = f"{package.name}: {len(bad)} of {len(steps)} patches do not apply"
        return [{"package": package.name, "message": message, "next": "see patches status, or move them with refresh"}]
    # The tree of a commit with a pin of its own is proven by that pin and the patches' digests.
    proven = mode == "git" and package.git_tree
    return [] if result is None or result.matches or proven else [_other_tree(result)]


def _other_tree(result: Result) -> Document:
    return {
        "package": result.package,
        "message": f"{result.message}: expected {result.expected}, found {result.found}",
        "expected": result.expected,
        "found": result.found,
        "next": result.remedy,
    }


def _slowest(units: Iterable[UnitCost]) -> list[UnitCost]:
    return sorted(units, key=lambda unit: -unit.seconds)[:3]


def _cost(unit: UnitCost) -> str:
    name = unit.unit if unit.unit.startswith(unit.component) else f"{unit.component} {unit.unit}"
    return f"{name} {unit.seconds:.0f} s" + (f", each of {unit.units}" if unit.units > 1 else "")


def _overlap(pair: Overlap) -> tuple[str, str]:
    """The sentence and the relation; patches that share no more than a file are told to machines only."""
    where = {"same": "the same lines", "near": "neighbouring lines", "file": "other lines"}[pair.relation]
    return f"{pair.first} and {pair.second} change {where} of {pair.path}; order: {pair.order}", pair.relation


def _patches(package: Package, steps: Sequence[Step]) -> list[Document]:
    """Each patch with its state, or `unknown` while the source is not here."""
    if not steps:
        return [{"file": file, "state": "unknown until the source is fetched"} for file in package.patches]
    return [{"file": step.verdict.file, "state": step.verdict.label} for step in steps]


def _toolchain(recipe: Recipe, root: Path, context: Context, kind: Kind) -> Document:
    from builder.compile.toolchain import files_for

    files = files_for(locked(recipe, root), recipe.target.machine, kind)
    missing = [file for file in files if context.store.blob(file.sha256) is None]
    return {
        "kind": kind,
        "cuda": recipe.toolchain.cuda,
        "torch": recipe.toolchain.torch,
        "files": len(files),
        "missing": len(missing),
        "missing_bytes": sum(file.size for file in missing),
    }


def _package_lines(package: Mapping[str, Any]) -> list[str]:
    state = "here" if package["source_here"] else "to fetch"
    kept = " (its wheel is in the store)" if package["wheel_kept"] else ""
    lines = [f"{package['name']} {package['version']}{kept}", f"  source: {package['source']} ({state})"]
    lines += [f"  patch {patch['file']}: {patch['state']}" for patch in package["patches"]]
    lines += [f"  {item['name']}: {item['state']}, no patch" for item in package["superseded"]]
    lines += [f"  overlap: {told}" for told, relation in package["overlaps"] if relation != "file"]
    if package["units"] and not package["wheel_kept"]:
        lines.append(f"  {counted(package['units'], 'unit')}, {duration(package['cpu_seconds'])} on one core; slowest:")
        lines += [f"    {unit}" for unit in package["slowest"]]
    late = [_late(group) for group in package["left_out"] if group["at_first_use"]]
    if late:
        lines.append(f"  not built, compiled on the device if vLLM comes to call them: {', '.join(late)}")
    return lines


def _late(group: Mapping[str, Any]) -> str:
    return f"{group['modules']} but for {group['built']}" if group["built"] else str(group["modules"])
