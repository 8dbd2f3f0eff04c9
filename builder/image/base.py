"""The base of an image: a local OCI layout, pinned by digest and looked over before anything is laid on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from builder.context import Context
from builder.errors import NegativeVerdict, RecipeError, RunError, ToolchainError
from builder.image.places import GROUP_LINE, USER, USER_LINE, Python
from builder.inspect.oci import ContainerFacts, inspect_image
from builder.model import Finding
from builder.store import key_of
from builder.verify.image import Wanted, base_findings

_PINNED = re.compile(r"(?P<name>[^\s@]+)@(?P<digest>sha256:[0-9a-f]{64})")
_TAG = re.compile(r":[^:/]+$")
_REMOTE: Final = "docker://"
INSTALL: Final = "apt-get install buildah skopeo"


@dataclass(frozen=True, slots=True)
class Base:
    """`name` and `digest` as the pin says them, the layout's folder, and what is in it."""

    name: str
    digest: str
    reference: str
    facts: ContainerFacts

    @property
    def passwd(self) -> str:
        """Its /etc/passwd with the image's own user added."""
        lines = (self.facts.root.text("etc/passwd") or "root:x:0:0:root:/root:/bin/sh\n").splitlines()
        kept = [line for line in lines if line.partition(":")[0] != USER]
        return "\n".join([*kept, USER_LINE, ""])

    @property
    def group(self) -> str:
        """Its /etc/group with the image's own."""
        lines = (self.facts.root.text("etc/group") or "root:x:0:\n").splitlines()
        return "\n".join([*(line for line in lines if line.partition(":")[0] != USER), GROUP_LINE, ""])


def pinned(text: str) -> tuple[str, str]:
    """Name and digest of `[docker://]NAME[:TAG]@sha256:…`; raises RecipeError for a base by tag alone."""
    match = _PINNED.fullmatch(text.removeprefix(_REMOTE))
    if match is None:
        raise RecipeError(
            f"the base {text} is not pinned by digest",
            expected="NAME@sha256:…, or oci:PATH of a local layout",
            remedy=f"look its digest up once: skopeo inspect {_REMOTE}{text.removeprefix(_REMOTE)}",
        )
    return match["name"], match["digest"]


def bring(text: str, architecture: str, context: Context) -> Base:
    """The base as a local layout: one that is given as oci:PATH, or pulled by its digest.

    Raises RecipeError for a base by tag alone, ToolchainError without skopeo, RunError when it cannot be pulled, and
    InspectError when its bytes are not what its digests say.
    """
    if text.startswith("oci:"):
        facts = inspect_image(text, f"linux/{architecture}")
        return Base(Path(text.removeprefix("oci:")).name, facts.digest, text, facts)
    name, digest = pinned(text)
    plain = _TAG.sub("", name)

    def pull(into: Path) -> None:
        copy = ["skopeo", "copy", "--override-os", "linux", "--override-arch", architecture, "--preserve-digests"]
        _skopeo([*copy, f"{_REMOTE}{plain}@{digest}", f"oci:{into}"], context)

    layout = context.store.tree(f"base-{key_of([digest, architecture])[:16]}", pull)
    reference = f"oci:{layout}"
    return Base(name, digest, reference, inspect_image(reference, f"linux/{architecture}"))


def look_over(base: Base, python: Python, architecture: str, *, brings_python: bool) -> None:
    """Raise NegativeVerdict for a base that no image may stand on."""
    findings = [*base_findings(base.facts, Wanted(architecture=architecture))]
    if not brings_python and base.facts.root.entry(python.interpreter) is None:
        findings.append(
            Finding(
                "image-python",
                python.interpreter,
                "the base has no such Python",
                "choose another base, or let [image] packages in the recipe name its package",
            )
        )
    if findings:
        told = "\n".join(f"  - {f.rule}: {f.where}: {f.message}\n      {f.remedy}" for f in findings)
        raise NegativeVerdict(f"nothing can be built on {base.name}\n{told}", where=base.reference)


def _skopeo(argv: list[str], context: Context) -> None:
    try:
        context.run(["skopeo", "--version"])
    except RunError as error:
        raise ToolchainError("skopeo is not here", expected="skopeo", remedy=INSTALL) from error
    with context.report.step("pull the base"):
        context.run(argv, log=context.logs / "skopeo.log")
