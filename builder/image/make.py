"""One image: layers staged, built by the tool that is there, written anew, proven, put into its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.context import Context
from builder.errors import NegativeVerdict
from builder.finding import Finding
from builder.image.base import Base
from builder.image.container import containerfile, steps
from builder.image.mounts import unmount
from builder.image.placing import place
from builder.image.sayings import Bill, labels, sbom
from builder.image.stage import Part, finish, own_files, stage, take_ptxas
from builder.image.tools import Job, commands, leavings
from builder.image.writing import Said, attach, rewrite
from builder.inspect.oci import ContainerFacts, inspect_image
from builder.model import ImagePin, LockedFile, Recipe, VerifiedWheel
from builder.store import atomic_write, key_of
from builder.verify.check import told
from builder.verify.image import Contents, image_findings, state_of, wanted_for
from builder.verify.image.places import SBOM, Python, healthcheck


@dataclass(frozen=True, slots=True)
class Order:
    """What to build: the recipe, its wheels with a good verdict, what they need, and on what.

    `compiler` is the wheel with the assembler; `out` is the layout's folder; `with_packages` when the base still lacks
    the recipe's packages.
    """

    recipe: Recipe
    pin: ImagePin
    python: Python
    wheels: tuple[VerifiedWheel, ...]
    compiler: LockedFile
    files: tuple[LockedFile, ...]
    base: Base
    architecture: str
    out: Path
    with_packages: bool = False


def make_image(order: Order, tool: str, context: Context) -> ContainerFacts:
    """Build, prove and place the image.

    Raises WheelError (wheels that collide), RunError (the tool failed) and NegativeVerdict (the image is not good).
    """
    with context.store.scratch() as work:
        with context.report.step("stage the layers"):
            _stage(order, work / "layers", context)
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
        said = _said(order)
        rewrite(job.out, said)
        with context.report.step("verify the image"):
            facts = inspect_image(f"oci:{job.out}:{said.tag}", f"linux/{order.architecture}")
            _prove(order, facts, context)
        attach(job.out, sbom(_bill(order), facts.root))
        return _place(order, job.out, facts, context)


def _run(tool: str, job: Job, context: Context) -> None:
    """The tool's commands, and its clean-up whatever becomes of them: storage that stays mounted cannot be removed."""
    try:
        for number, argv in enumerate(commands(tool, job)):
            context.run(argv, log=context.logs / f"{tool}-{number}.log")
    finally:
        for argv in leavings(tool, job):
            context.run(argv, log=context.logs / f"{tool}-end.log", check=False)
        unmount(job.storage, context)


def _said(order: Order) -> Said:
    told = labels(order.recipe, order.base, order.wheels)
    lines = steps(order.pin, with_packages=order.with_packages)
    return Said(order.recipe.name, told, told, healthcheck(), lines, order.base.facts.history)


def _bill(order: Order) -> Bill:
    return Bill(order.recipe, order.base, order.wheels, order.files, order.compiler)


def _stage(order: Order, into: Path, context: Context) -> None:
    ours = (each.wheel for each in order.wheels)
    parts = [Part(canonicalize_name(wheel.name), wheel.path, wheel.path.name, ours=True) for wheel in ours]
    parts += [Part(file.project, blob(file, context), file.filename) for file in order.files]
    into.mkdir()
    stage(parts, order.python, into)
    take_ptxas(blob(order.compiler, context), into)
    users = {} if order.with_packages else {"passwd": order.base.passwd, "group": order.base.group}
    own_files(order.python, users, into)
    atomic_write(into / "ours" / SBOM.strip("/"), sbom(_bill(order)))
    finish(into)
    state = state_of(_contents(order), [each.wheel.sha256 for each in order.wheels], order.base.digest)
    text = containerfile(order.pin, order.python, state, with_packages=order.with_packages)
    (into / "Containerfile").write_text(text, encoding="utf-8")


def _contents(order: Order) -> Contents:
    wheels = tuple(each.wheel.path for each in order.wheels)
    return Contents(order.recipe, order.pin, order.python, wheels, order.files, order.compiler)


def _prove(order: Order, facts: ContainerFacts, context: Context) -> None:
    wanted = wanted_for(_contents(order), order.base.standing, context.store, with_packages=order.with_packages)
    findings = image_findings(facts, wanted)
    if findings:
        raise refused(facts, findings)


def refused(facts: ContainerFacts, findings: Sequence[Finding]) -> NegativeVerdict:
    """The findings as an error."""
    return NegativeVerdict(f"the image is not what was asked for\n{told(findings)}", where=facts.reference)


def _place(order: Order, made: Path, facts: ContainerFacts, context: Context) -> ContainerFacts:
    with context.store.lock(f"image-{key_of(str(order.out.absolute()))[:16]}"):
        place(made, order.out)
    return replace(facts, reference=f"oci:{order.out}:{order.recipe.name}")


def blob(file: LockedFile, context: Context) -> Path:
    """Where a fetched file lies in the store."""
    return context.store.root / "blobs" / file.sha256
