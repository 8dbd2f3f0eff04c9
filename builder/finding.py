"""What a check says: findings, those that are excused, and the verdict that they make up.

Apart from the nouns of a build, for inspect speaks in findings too, and making the other records takes longer than it
takes to look at a small file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that contradicts an expectation, its cause and its remedy.

    `names` are the kernels, symbols or files meant, mangled and all of them; the message may name the first alone.
    """

    rule: str
    where: str
    message: str
    remedy: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that is known and excused, with the reason that the recipe gives."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that verify found of one wheel; good when there are no findings but accepted ones.

    `archs` has the exact architectures of each object's code, by its path.
    """

    findings: tuple[Finding, ...]
    archs: dict[str, tuple[str, ...]]
    accepted: tuple[Accepted, ...] = ()

    @property
    def good(self) -> bool:
        """True when nothing contradicts the expectations."""
        return not self.findings
