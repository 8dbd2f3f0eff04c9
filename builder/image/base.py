"""The base of an image: a local OCI layout, pinned by digest and looked over before anything is laid on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from builder.context import Context
from builder.errors import NegativeVerdict
from builder.finding import Finding
from builder.inspect.oci import ContainerFacts, inspect_image
from builder.verify.check import told
from builder.verify.image import Standing, Wanted, base_findings, pinned, pull, pulled_base
from builder.verify.image.places import GROUP_LINE, USER, USER_LINE, Python


@dataclass(frozen=True, slots=True)
class Base:
    """`name` and `digest` as the pin says them, the layout's folder, and what is in it."""

    name: str
    digest: str
    reference: str
    facts: ContainerFacts

    @property
    def standing(self) -> Standing:
        """What an image on it must begin with, and may take over."""
        env = tuple(f"{name}={value}" for name, value in self.facts.env.items())
        return Standing((self.digest,), tuple(layer.diff_id for layer in self.facts.layers), env)

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


def bring(text: str, architecture: str, context: Context) -> Base:
    """The base as a local layout: one that is given as oci:PATH, or pulled by its digest.

    Raises RecipeError for a base by tag alone, ToolchainError without skopeo, FetchError when it cannot be pulled, and
    DigestError or InspectError when its bytes are not what its digests say.
    """
    if text.startswith("oci:"):
        facts = inspect_image(text, f"linux/{architecture}")
        return Base(Path(text.removeprefix("oci:")).name, facts.digest, text, facts)
    name, digest = pinned(text)
    key = pulled_base(digest, architecture)
    layout = context.store.tree(key, lambda into: pull(name, digest, architecture, into, context))
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
        raise NegativeVerdict(f"nothing can be built on {base.name}\n{told(findings)}", where=base.reference)
