"""`verify oci:PATH [recipe=NAME] [wheels=FOLDER] [base=oci:PATH|sha256:…] [lock=FILE] [python=3.12]`: an image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from builder.context import Context
from builder.errors import UsageError
from builder.fetch import fetch_all
from builder.finding import Finding
from builder.inspect.oci import ContainerFacts, image_text
from builder.model import Recipe
from builder.recipe import load
from builder.verify.check import told
from builder.verify.image.remote import inspect_anywhere
from builder.verify.image.rules import Wanted, image_findings
from builder.verify.image.wanted import judged_by, of_recipe, wanted_for

VERSION = 1
OPTIONS = ("image", "recipe", "wheels", "base", "lock", "python", "out", "store")

JudgeWheels = Callable[[Sequence[Path]], tuple[list[dict[str, Any]], str, bool]]
"""Verify wheels by the same recipe: documents, text, and whether all are good."""


def run_image_verb(
    references: Sequence[str], options: Mapping[str, str], context: Context, root: Path, judge_wheels: JudgeWheels
) -> tuple[dict[str, Any], str, bool]:
    """Judge images; with a recipe, also the wheels that they must hold.

    Raises UsageError for unknown options or a recipe without wheels to compare with, InspectError for an image that
    cannot be read, FetchError when a locked wheel to compare with cannot be had.
    """
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"verify of an image takes no {name}=", expected=", ".join(f"{option}=…" for option in OPTIONS)
            )
    recipe = load(options["recipe"], root) if "recipe" in options else None
    paths = _wheels(recipe, options) if recipe else ()
    documents, said, good = judge_wheels(paths) if paths else ([], "", True)
    wanted = _wanted(recipe, options, paths, context, root)
    judged = []
    for reference in references:
        with context.report.step(f"read {reference}"):
            image = inspect_anywhere(reference, wanted.architecture, context)
        judged.append((image, image_findings(image, wanted)))
    good = good and not any(findings for _, findings in judged)
    text = "\n".join([*(line for line in (said,) if line), *(_text(image, found) for image, found in judged)])
    images = [_document(image, found) for image, found in judged]
    return {"version": VERSION, "good": good, "files": documents, "images": images}, text, good


def _wanted(
    recipe: Recipe | None, options: Mapping[str, str], wheels: Sequence[Path], context: Context, root: Path
) -> Wanted:
    """What the recipe asks; what its wheels need is fetched, where the store lacks it, to be compared with."""
    if recipe is None or recipe.image is None:
        return judged_by(recipe, options, context.store)
    contents, base = of_recipe(recipe, recipe.image, options, root, wheels, context.store)
    with context.report.step("fetch what the wheels need"):
        fetch_all([contents.compiler, *contents.files], context.store, context.report)
    return wanted_for(contents, base, context.store, with_packages=bool(recipe.image.packages))


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
    rows = [asdict(finding) for finding in findings]
    return {"reference": image.reference, "digest": image.digest, "good": not findings, "findings": rows}


def _text(image: ContainerFacts, findings: tuple[Finding, ...]) -> str:
    count = len(findings)
    verdict = "good" if not findings else f"{count} finding{'s' * (count != 1)}"
    lines = [f"{image_text(image)}", f"{image.reference}: {verdict}"]
    return "\n".join([*lines, *([told(findings)] if findings else [])])
