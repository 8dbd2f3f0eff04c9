"""VerifiedWheel → index and image."""

from __future__ import annotations

from builder.publish.index import Published, publish
from builder.publish.provenance import statements
from builder.publish.upkeep import Changed, Collected, gc, refresh, rollback, unyank, yank
from builder.publish.verbs import check, run_verb, told

__all__ = [
    "Changed",
    "Collected",
    "Published",
    "check",
    "gc",
    "publish",
    "refresh",
    "rollback",
    "run_verb",
    "statements",
    "told",
    "unyank",
    "yank",
]
