"""`verify oci:PATH [recipe=NAME] [wheels=FOLDER] [base=oci:PATH|sha256:…]`: judge an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.context import Context
from builder.errors import UsageError
from builder.inspect.oci import ContainerFacts, image_text, inspect_image
from builder.model import Finding, Recipe
from builder.recipe import load
from builder.verify.image.rules import Wanted, image_findings
from builder.verify.image.wheels import installed_of

VERSION = 1
OPTIONS = ("image", "recipe", "wheels", "base", "out", "store")
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
LABEL = "io.github.spark-wheels"
"""What the names of our own labels begin with."""

JudgeWheels = Callable[[Sequence[Path]], tuple[list[dict[str, Any]], str, bool]]
"""Verify wheels by the same recipe: documents, text, and whether all are good."""


def run_image_verb(
    references: Sequence[str], options: Mapping[str, str], context: Context, root: Path, judge_wheels: JudgeWheels
) -> tuple[dict[str, Any], str, bool]:
    """Judge images; with a recipe, also the wheels that they must hold.

    Raises UsageError for unknown options or a recipe without wheels to compare with, InspectError for an image that
    cannot be read.
    """
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"verify of an image takes no {name}=", expected=", ".join(f"{option}=…" for option in OPTIONS)
            )
    recipe = load(options["recipe"], root) if "recipe" in options else None
    paths = _wheels(recipe, options) if recipe else ()
    documents, said, good = judge_wheels(paths) if paths else ([], "", True)
    wanted = wanted_of(recipe, options, tuple(paths))
    judged = []
    for reference in references:
        with context.report.step(f"read {reference}"):
            image = inspect_image(reference, f"linux/{wanted.architecture}")
        judged.append((image, image_findings(image, wanted)))
    good = good and not any(findings for _, findings in judged)
    text = "\n".join([*(line for line in (said,) if line), *(_text(image, found) for image, found in judged)])
    images = [_document(image, found) for image, found in judged]
    return {"version": VERSION, "good": good, "files": documents, "images": images}, text, good


def wanted_of(recipe: Recipe | None, options: Mapping[str, str], wheels: tuple[Path, ...]) -> Wanted:
    """What the recipe asks of an image with these wheels; the base as `base=` says, else as the recipe pins it."""
    architecture = "arm64" if recipe is None else ARCHITECTURES[recipe.target.machine]
    base = options.get("base", "")
    layers: tuple[str, ...] = ()
    if base.startswith("oci:"):
        facts = inspect_image(base, f"linux/{architecture}")
        base, layers = facts.digest, tuple(layer.diff_id for layer in facts.layers)
    elif not base and recipe is not None and recipe.image is not None:
        base = recipe.image.base.rpartition("@")[2]
    labels = {} if recipe is None else {f"{LABEL}.recipe": recipe.name, f"{LABEL}.recipe.digest": recipe.digest}
    return Wanted(architecture, base, layers, labels, tuple(installed_of(path) for path in wheels))


def _wheels(recipe: Recipe, options: Mapping[str, str]) -> Sequence[Path]:
    folder = Path(options.get("wheels") or Path(options.get("out", "out")) / recipe.name / "wheels")
    found = sorted(folder.glob("*.whl"))
    if not found:
        raise UsageError(
            "no wheels to hold the image against",
            where=str(folder),
            expected="the recipe's verified wheels",
            remedy="build the recipe, or name their folder with wheels=PATH",
        )
    return found


def _document(image: ContainerFacts, findings: tuple[Finding, ...]) -> dict[str, Any]:
    rows = [{"rule": f.rule, "where": f.where, "message": f.message, "remedy": f.remedy} for f in findings]
    return {"reference": image.reference, "digest": image.digest, "good": not findings, "findings": rows}


def _text(image: ContainerFacts, findings: tuple[Finding, ...]) -> str:
    count = len(findings)
    verdict = "good" if not findings else f"{count} finding{'s' * (count != 1)}"
    lines = [f"{image_text(image)}", f"{image.reference}: {verdict}"]
    lines += [f"  - {f.rule}: {f.where}: {f.message}\n      {f.remedy}" for f in findings]
    return "\n".join(lines)
