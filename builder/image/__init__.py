"""VerifiedWheel → container image: OCI, on a base pinned by digest, the same bytes when built again."""

from __future__ import annotations

from builder.image.verbs import run_verb

__all__ = ["run_verb"]
