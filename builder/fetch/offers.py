"""What an index offers, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that the index offers. `sha256` is empty and `size` (bytes) 0 where it does not say."""

    filename: str
    version: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Offer:
    """A candidate and where it lies."""

    candidate: Candidate
    url: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What every place said of a project: its offers, and why some places said nothing."""

    offers: list[Offer] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
