"""`image recipe=NAME [push=REF]`: wheels and their locked needs to an OCI layout; `image lock`; `image push`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from builder.context import Context
from builder.errors import FetchError, RecipeError, ToolchainError, UsageError
from builder.fetch import fetch_all
from builder.image.base import bring, look_over
from builder.image.lock import resolve
from builder.image.make import Order, blob, make_image, refused
from builder.image.mounts import unmount_abandoned
from builder.image.needs import hold_together, project_of
from builder.image.push import push_image
from builder.image.tools import find_tool
from builder.inspect.oci import ContainerFacts, image_text, inspect_image
from builder.model import ImagePin, LockedBase, LockedFile, Recipe, VerifiedWheel, Wheel
from builder.recipe import load, lock_text, read_base
from builder.store import atomic_write, sha256_of
from builder.verify import verify_wheel
from builder.verify.image import (
    ARCHITECTURES,
    image_findings,
    needed,
    of_recipe,
    pinned,
    remote_base,
    wanted_for,
)
from builder.verify.image.places import LAYERS, Python

OPTIONS = ("recipe", "base", "push", "tool", "wheels", "lock", "python", "out", "store")

Answer = tuple[dict[str, Any], str]
"""A document for machines and a text for people."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says: the recipe, its [image], the folders, and the options as given."""

    recipe: Recipe
    pin: ImagePin
    options: Mapping[str, str]
    root: Path
    out: Path

    @property
    def folder(self) -> Path:
        """Where the recipe's wheels are."""
        return Path(self.options.get("wheels") or self.out / self.recipe.name / "wheels")

    @property
    def lock(self) -> Path:
        """The lock of what they need."""
        return Path(self.options["lock"]) if "lock" in self.options else self.root / "recipes" / self.pin.lock

    @property
    def python(self) -> Python:
        """The target's Python."""
        return Python(self.options.get("python", self.recipe.target.python))

    @property
    def architecture(self) -> str:
        """As images call the recipe's machine."""
        return ARCHITECTURES[self.recipe.target.machine]

    @property
    def place(self) -> Path:
        """Where the image goes."""
        return self.out / self.recipe.name / "image"


def run_verb(words: Sequence[str], options: Mapping[str, str], context: Context, root: Path, out: Path) -> Answer:
    """Build the image of a recipe, push the one that stands, or make its lock; the document and the text.

    `out` is where builds leave their wheels. Raises UsageError, RecipeError (no [image], a base by tag alone, a lock
    that does not fit), NegativeVerdict (a wheel, the base or the image is not good), ToolchainError and RunError.
    """
    _check(words, options)
    recipe = load(options["recipe"], root)
    if recipe.image is None:
        raise RecipeError(
            f"recipe {recipe.name} has no [image]", where=str(recipe.path), remedy="give it base= by digest and lock="
        )
    return _VERBS[" ".join(words)](Asked(recipe, recipe.image, options, root, out), context)


def _build(asked: Asked, context: Context) -> Answer:
    text = asked.options.get("base", asked.pin.base)
    if not text.startswith("oci:"):
        pinned(text)
    started = time.monotonic()
    tool = find_tool(context.run, asked.options.get("tool", ""))
    unmount_abandoned(context)
    base = bring(text, asked.architecture, context)  # before gigabytes are fetched for it
    with_packages = "base" not in asked.options and bool(asked.pin.packages)
    look_over(base, asked.python, asked.architecture, brings_python=with_packages)
    wheels = _verified(asked, context)
    compiler, files = _needed(asked, wheels, context)
    order = Order(
        recipe=asked.recipe,
        pin=asked.pin,
        python=asked.python,
        wheels=wheels,
        compiler=compiler,
        files=files,
        base=base,
        architecture=asked.architecture,
        out=asked.place,
        with_packages=with_packages,
    )
    facts = make_image(order, tool, context)
    pushed = push_image(facts, asked.options["push"], context) if "push" in asked.options else ""
    document = _document(order, facts, tool, pushed, time.monotonic() - started)
    return document, "\n".join(["", image_text(facts), *_next(order, pushed)])


def _check(words: Sequence[str], options: Mapping[str, str]) -> None:
    unknown = next((name for name in options if name not in OPTIONS), "")
    if unknown:
        close = get_close_matches(unknown, OPTIONS, 1)
        hint = f", did you mean {close[0]}=?" if close else ""
        raise UsageError(f"unknown option {unknown}={hint}", expected=", ".join(f"{o}=…" for o in OPTIONS))
    if " ".join(words) not in _VERBS:
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


def _verified(asked: Asked, context: Context) -> tuple[VerifiedWheel, ...]:
    """Every wheel proven anew from its bytes: an image takes nobody's word."""
    recipe, paths = asked.recipe, _paths(asked.recipe, asked.folder)
    return tuple(verify_wheel(_wheel(paths[p.name]), recipe, p, context, asked.root) for p in recipe.packages)


def _wheel(path: Path) -> Wheel:
    name, version, _, _ = parse_wheel_filename(path.name)
    tag = "-".join(path.stem.split("-")[-3:])
    return Wheel(path, sha256_of(path), path.stat().st_size, name, str(version), tag)


def _needed(
    asked: Asked, wheels: Sequence[VerifiedWheel], context: Context
) -> tuple[LockedFile, tuple[LockedFile, ...]]:
    """The assembler's wheel and the locked files, fetched and found to meet every requirement."""
    compiler, files = needed(asked.recipe, asked.pin, asked.lock, asked.root)
    with context.report.step("fetch what the wheels need"):
        fetch_all([compiler, *files], context.store, context.report)
    roots = [project_of(each.wheel.path) for each in wheels]
    projects = [project_of(blob(file, context), file.filename) for file in files]
    hold_together(roots, projects, asked.recipe.target.machine, asked.python.version, asked.lock)
    return compiler, files


def _push(asked: Asked, context: Context) -> Answer:
    """Push what an earlier call built, after judging wheels and image once more: words are no proof."""
    if "push" not in asked.options:
        raise UsageError("push where to?", expected="push=REGISTRY/NAME:TAG")
    wheels = _verified(asked, context)
    _needed(asked, wheels, context)
    reference = f"oci:{asked.place}:{asked.recipe.name}"
    facts = inspect_image(reference, f"linux/{asked.architecture}")
    paths = tuple(each.wheel.path for each in wheels)
    contents, base = of_recipe(asked.recipe, asked.pin, asked.options, asked.root, paths, context.store)
    findings = image_findings(facts, wanted_for(contents, base, context.store, with_packages=bool(asked.pin.packages)))
    if findings:
        raise refused(facts, findings)
    pushed = push_image(facts, asked.options["push"], context)
    document = {"version": 1, "recipe": asked.recipe.name, "image": reference, "digest": facts.digest, "pushed": pushed}
    return document, f"pushed: {pushed}"


def _lock(asked: Asked, context: Context) -> Answer:
    """Pin what the wheels need, and the layers of the base where its registry is reached."""
    wheels = tuple(_paths(asked.recipe, asked.folder).values())
    files = resolve(asked.recipe, wheels, asked.python.version, context)
    base, said = _base_to_lock(asked, context)
    name, python = asked.recipe.name, asked.python.version
    head = f"# Made by `image lock recipe={name}` for Python {python}; do not edit by hand."
    text = lock_text(files, base).partition("\n")[2]
    atomic_write(asked.lock, f"{head}\n{text}".encode())
    total = sum(file.size for file in files)
    document = {"version": 1, "lock": str(asked.lock), "files": len(files), "bytes": total, "python": python}
    layers = list(base.layers) if base else None
    return document | {"base_layers": layers}, f"{asked.lock}: {len(files)} files, {total / 1e9:.2f} GB; {said}"


def _base_to_lock(asked: Asked, context: Context) -> tuple[LockedBase | None, str]:
    """The pinned base with its layers; of a registry that is not reached, those that the lock had, if any."""
    name, digest = pinned(asked.pin.base)
    try:
        base = remote_base(name, digest, asked.architecture, context)
    except (FetchError, ToolchainError) as error:
        kept = read_base(asked.lock) if asked.lock.is_file() else None
        if kept is not None and kept.digest == digest:
            return kept, f"the base's {len(kept.layers)} layers as they were locked"
        return None, f"without the base's layers, so verify needs base=oci:PATH: {error.what}"
    return base, f"the base has {len(base.layers)} layers"


_VERBS: Mapping[str, Callable[[Asked, Context], Answer]] = {"": _build, "push": _push, "lock": _lock}


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
    names = [*("base" for _ in order.base.facts.layers), *(["packages"] if order.with_packages else []), *LAYERS]
    return [
        {"name": name, "digest": layer.digest, "size": layer.size, "unpacked": layer.unpacked, "files": layer.files}
        for name, layer in zip(names, facts.layers, strict=True)
    ]


def _next(order: Order, pushed: str) -> list[str]:
    if pushed:
        return [f"  pushed: {pushed}"]
    return [
        "Next: push it, or load it:",
        f"  python -m builder image recipe={order.recipe.name} push=REGISTRY/NAME:TAG",
    ]
