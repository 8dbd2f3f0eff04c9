"""VerifiedWheel → index and image."""

from __future__ import annotations

from builder.publish.index import Published, publish
from builder.publish.locks import Locks, add_locks, list_locks, remove_locks
from builder.publish.provenance import statements
from builder.publish.upkeep import Changed, Collected, gc, refresh, rollback, unyank, yank
from builder.publish.verbs import check, run_verb, told

__all__ = [
    "Changed",
    "Collected",
    "Locks",
    "Published",
    "add_locks",
    "check",
    "gc",
    "list_locks",
    "publish",
    "refresh",
    "remove_locks",
    "rollback",
    "run_verb",
    "statements",
    "told",
    "unyank",
    "yank",
]
