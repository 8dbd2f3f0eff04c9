"""`image recipe=NAME [push=REF]`: wheels and their locked needs to an OCI layout; `image lock`; `image push`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from builder.context import Context
from builder.errors import RecipeError, UsageError
from builder.fetch import fetch_all
from builder.image.base import bring, look_over, pinned
from builder.image.container import steps
from builder.image.lock import resolve
from builder.image.make import Order, blob, make_image, refused
from builder.image.needs import hold_together, project_of
from builder.image.places import Python
from builder.image.push import push_image
from builder.image.tools import find_tool
from builder.inspect.oci import ContainerFacts, image_text, inspect_image
from builder.model import LockedFile, Recipe, VerifiedWheel, Wheel
from builder.recipe import load, lock_text, locked, read_lock
from builder.store import atomic_write, sha256_of
from builder.verify import verify_wheel
from builder.verify.image import ARCHITECTURES, image_findings, wanted_of

OPTIONS = ("recipe", "base", "push", "tool", "wheels", "lock", "python", "out", "store")
_COMPILER = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime")


def run_verb(
    words: Sequence[str], options: Mapping[str, str], context: Context, root: Path, out: Path
) -> tuple[dict[str, Any], str]:
    """Build the image of a recipe, push the one that stands, or make its lock; the document and the text.

    `out` is where builds leave their wheels. Raises UsageError, RecipeError (no [image], a base by tag alone, a lock
    that does not fit), NegativeVerdict (a wheel, the base or the image is not good), ToolchainError and RunError.
    """
    _check(words, options)
    recipe = load(options["recipe"], root)
    folder = Path(options.get("wheels") or out / recipe.name / "wheels")
    if recipe.image is None:
        raise RecipeError(
            f"recipe {recipe.name} has no [image]", where=str(recipe.path), remedy="give it base= by digest and lock="
        )
    place = Path(options["lock"]) if "lock" in options else root / "recipes" / recipe.image.lock
    python = Python(options.get("python", recipe.target.python))
    if list(words) == ["push"]:
        return _push_standing(recipe, folder, options, context, root, out)
    if words:
        return _lock(recipe, _paths(recipe, folder), python, place, context)
    text = options.get("base", recipe.image.base)
    if not text.startswith("oci:"):
        pinned(text)
    started = time.monotonic()
    tool = find_tool(context.run, options.get("tool", ""))
    wheels = _verified(recipe, folder, context, root)
    files = _needed(recipe, wheels, place, python, context, root)
    architecture = ARCHITECTURES[recipe.target.machine]
    base = bring(text, architecture, context)
    brings_python = "base" not in options and bool(recipe.image.packages)
    look_over(base, python, architecture, brings_python=brings_python)
    order = Order(recipe, recipe.image, python, wheels, files, base, architecture, out / recipe.name / "image")
    facts = make_image(order, tool, context, with_packages=brings_python)
    pushed = push_image(facts, options["push"], context) if "push" in options else ""
    document = _document(order, facts, tool, pushed, time.monotonic() - started)
    return document, "\n".join(["", image_text(facts), *_next(order, pushed)])


def _check(words: Sequence[str], options: Mapping[str, str]) -> None:
    unknown = next((name for name in options if name not in OPTIONS), "")
    if unknown:
        close = get_close_matches(unknown, OPTIONS, 1)
        hint = f", did you mean {close[0]}=?" if close else ""
        raise UsageError(f"unknown option {unknown}={hint}", expected=", ".join(f"{o}=…" for o in OPTIONS))
    if list(words) not in ([], ["lock"], ["push"]):
        raise UsageError(f"image has no verb {words[0]!r}", expected="image recipe=NAME, image lock, or image push")
    if "recipe" not in options:
        raise UsageError("which recipe?", expected="recipe=NAME", remedy="for example recipe=aeon7")


def _paths(recipe: Recipe, folder: Path) -> dict[str, Path]:
    """Project → wheel, of every package of the recipe. Raises UsageError when one is missing or there twice."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.whl")):
        found.setdefault(canonicalize_name(path.name.partition("-")[0]), []).append(path)
    wrong = {p.name: len(found.get(p.name, [])) for p in recipe.packages if len(found.get(p.name, [])) != 1}
    if wrong:
        told = ", ".join(f"{count} of {name}" for name, count in wrong.items())
        raise UsageError(
            f"there is not one wheel of each package: {told}",
            where=str(folder),
            remedy=f"build recipe={recipe.name} first, or name the folder with wheels=PATH",
        )
    return {package.name: found[package.name][0] for package in recipe.packages}


def _verified(recipe: Recipe, folder: Path, context: Context, root: Path) -> tuple[VerifiedWheel, ...]:
    """Every wheel proven anew from its bytes: an image takes nobody's word."""
    paths = _paths(recipe, folder)
    return tuple(
        verify_wheel(_wheel(paths[package.name]), recipe, package, context, root) for package in recipe.packages
    )


def _wheel(path: Path) -> Wheel:
    name, version, _, _ = parse_wheel_filename(path.name)
    tag = "-".join(path.stem.split("-")[-3:])
    return Wheel(path, sha256_of(path), path.stat().st_size, name, str(version), tag)


def _needed(
    recipe: Recipe, wheels: Sequence[VerifiedWheel], place: Path, python: Python, context: Context, root: Path
) -> tuple[LockedFile, ...]:
    """The locked files, fetched and found to meet every requirement; the assembler's wheel is the first."""
    machine = recipe.target.machine
    files = [file for file in read_lock(place) if f"image-{machine}" in file.roles]
    compilers = [file for file in _toolchain(recipe, root) if recipe.image is not None and recipe.image.jit]
    nvcc = next(file for file in _toolchain(recipe, root) if file.project == _COMPILER[0])
    known = {file.project for file in files}
    files += [file for file in compilers if file.project not in known]
    with context.report.step("fetch what the wheels need"):
        fetch_all([nvcc, *files], context.store, context.report)
    roots = [project_of(each.wheel.path) for each in wheels]
    projects = [project_of(blob(file, context), file.filename) for file in files]
    hold_together(roots, projects, machine, python.version, place)
    return (nvcc, *(file for file in files if file is not nvcc))


def _toolchain(recipe: Recipe, root: Path) -> list[LockedFile]:
    """The compiler's wheels for the image's own machine."""
    roles = {f"host-{recipe.target.machine}", f"target-{recipe.target.machine}"}
    return [file for file in locked(recipe, root) if file.project in _COMPILER and roles & set(file.roles)]


def _push_standing(
    recipe: Recipe, folder: Path, options: Mapping[str, str], context: Context, root: Path, out: Path
) -> tuple[dict[str, Any], str]:
    """Push what an earlier call built, after judging wheels and image once more: words are no proof."""
    if "push" not in options:
        raise UsageError("push where to?", expected="push=REGISTRY/NAME:TAG")
    wheels = tuple(each.wheel.path for each in _verified(recipe, folder, context, root))
    reference = f"oci:{out / recipe.name / 'image'}:{recipe.name}"
    facts = inspect_image(reference, f"linux/{ARCHITECTURES[recipe.target.machine]}")
    chosen = {name: value for name, value in options.items() if name == "base"}
    findings = image_findings(facts, wanted_of(recipe, chosen, wheels))
    if findings:
        raise refused(facts, findings)
    pushed = push_image(facts, options["push"], context)
    document = {"version": 1, "recipe": recipe.name, "image": reference, "digest": facts.digest, "pushed": pushed}
    return document, f"pushed: {pushed}"


def _lock(
    recipe: Recipe, paths: Mapping[str, Path], python: Python, place: Path, context: Context
) -> tuple[dict[str, Any], str]:
    files = resolve(recipe, tuple(paths.values()), python.version, context)
    head = f"# Made by `image lock recipe={recipe.name}` for Python {python.version}; do not edit by hand."
    text = lock_text(files).partition("\n")[2]
    atomic_write(place, f"{head}\n{text}".encode())
    total = sum(file.size for file in files)
    document = {"version": 1, "lock": str(place), "files": len(files), "bytes": total, "python": python.version}
    return document, f"{place}: {len(files)} files, {total / 1e9:.2f} GB"


def _document(order: Order, facts: ContainerFacts, tool: str, pushed: str, seconds: float) -> dict[str, Any]:
    return {
        "version": 1,
        "recipe": order.recipe.name,
        "image": facts.reference,
        "digest": facts.digest,
        "base": {"name": order.base.name, "digest": order.base.digest},
        "python": order.python.version,
        "tool": tool,
        "size": sum(layer.size for layer in facts.layers),
        "layers": _layers(order, facts),
        "wheels": {each.wheel.path.name: each.wheel.sha256 for each in order.wheels},
        "pushed": pushed,
        "seconds": round(seconds, 1),
    }


def _layers(order: Order, facts: ContainerFacts) -> list[dict[str, object]]:
    names: Iterable[str] = (*("base" for _ in order.base.facts.layers), *steps())
    return [
        {"name": name, "digest": layer.digest, "size": layer.size, "unpacked": layer.unpacked, "files": layer.files}
        for name, layer in zip(names, facts.layers, strict=False)
    ]


def _next(order: Order, pushed: str) -> list[str]:
    if pushed:
        return [f"  pushed: {pushed}"]
    return [
        "Next: push it, or load it:",
        f"  python -m builder image recipe={order.recipe.name} push=REGISTRY/NAME:TAG",
    ]
