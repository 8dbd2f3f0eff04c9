"""One image: layers staged, built by the tool that is there, written anew, proven, put into its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from builder.context import Context
from builder.errors import NegativeVerdict
from builder.image.base import Base
from builder.image.container import containerfile, healthcheck, steps
from builder.image.places import SBOM, Python
from builder.image.placing import place
from builder.image.sayings import labels, sbom
from builder.image.stage import Part, finish, own_files, stage, take_ptxas
from builder.image.tools import Job, commands, leavings
from builder.image.writing import Said, rewrite
from builder.inspect.oci import ContainerFacts, inspect_image
from builder.model import Finding, ImagePin, LockedFile, Recipe, VerifiedWheel
from builder.store import atomic_write, key_of
from builder.verify.image import LABEL, Wanted, image_findings, installed_of


@dataclass(frozen=True, slots=True)
class Order:
    """What to build: the recipe, its wheels with a good verdict, what they need, and on what.

    The first of `files` is the wheel with the assembler; `out` is the layout's folder.
    """

    recipe: Recipe
    pin: ImagePin
    python: Python
    wheels: tuple[VerifiedWheel, ...]
    files: tuple[LockedFile, ...]
    base: Base
    architecture: str
    out: Path


def make_image(order: Order, tool: str, context: Context, *, with_packages: bool = False) -> ContainerFacts:
    """Build, prove and place the image; `with_packages` when the base still lacks the recipe's packages.

    Raises WheelError (wheels that collide), RunError (the tool failed) and NegativeVerdict (the image is not good).
    """
    with context.store.scratch() as work:
        said = _said(order)
        with context.report.step("stage the layers"):
            _stage(order, work / "layers", said.sbom, context)
        (work / "layers" / "Containerfile").write_text(
            containerfile(order.pin, order.python, with_packages=with_packages), encoding="utf-8"
        )
        job = Job(
            context=work / "layers",
            base=order.base.reference,
            base_digest=order.base.facts.digest,
            architecture=order.architecture,
            out=work / "image",
            storage=work / "storage",
        )
        with context.report.step(f"build with {tool}"):
            _run(tool, job, context)
        rewrite(job.out, said)
        with context.report.step("verify the image"):
            facts = inspect_image(f"oci:{job.out}:{said.tag}", f"linux/{order.architecture}")
            _prove(order, facts)
        return _place(order, job.out, facts, context)


def _run(tool: str, job: Job, context: Context) -> None:
    """The tool's commands, and its clean-up whatever becomes of them: storage that stays mounted cannot be removed."""
    try:
        for number, argv in enumerate(commands(tool, job)):
            context.run(argv, log=context.logs / f"{tool}-{number}.log")
    finally:
        for argv in leavings(tool, job):
            context.run(argv, log=context.logs / f"{tool}-end.log", check=False)


def _said(order: Order) -> Said:
    told = labels(order.recipe, order.base, order.wheels)
    bill = sbom(order.recipe, order.base, order.wheels, order.files)
    return Said(order.recipe.name, told, told, healthcheck(), steps(), bill)


def _stage(order: Order, into: Path, bill: bytes, context: Context) -> None:
    nvcc, *files = order.files
    parts = [Part(w.name.replace("_", "-"), w.path, w.path.name, ours=True) for w in (v.wheel for v in order.wheels)]
    installed = (nvcc, *files) if order.pin.jit else files
    parts += [Part(file.project, blob(file, context), file.filename) for file in installed]
    into.mkdir()
    stage(parts, order.python, into)
    take_ptxas(blob(nvcc, context), into)
    own_files(order.python, {"passwd": order.base.passwd, "group": order.base.group}, into)
    atomic_write(into / "ours" / SBOM.strip("/"), bill)
    finish(into)


def _prove(order: Order, facts: ContainerFacts) -> None:
    wanted = Wanted(
        architecture=order.architecture,
        base=order.base.digest,
        base_layers=tuple(layer.diff_id for layer in order.base.facts.layers),
        labels={f"{LABEL}.recipe": order.recipe.name, f"{LABEL}.recipe.digest": order.recipe.digest},
        wheels=tuple(installed_of(each.wheel.path) for each in order.wheels),
    )
    findings = image_findings(facts, wanted)
    if findings:
        raise refused(facts, findings)


def refused(facts: ContainerFacts, findings: Sequence[Finding]) -> NegativeVerdict:
    """The findings as an error."""
    told = "\n".join(f"  - {f.rule}: {f.where}: {f.message}\n      {f.remedy}" for f in findings)
    return NegativeVerdict(f"the image is not what was asked for\n{told}", where=facts.reference)


def _place(order: Order, made: Path, facts: ContainerFacts, context: Context) -> ContainerFacts:
    with context.store.lock(f"image-{key_of(str(order.out.absolute()))[:16]}"):
        place(made, order.out)
    return replace(facts, reference=f"oci:{order.out}:{order.recipe.name}")


def blob(file: LockedFile, context: Context) -> Path:
    """Where a fetched file lies in the store."""
    return context.store.root / "blobs" / file.sha256
