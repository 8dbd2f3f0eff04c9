"""VerifiedWheel → index and image."""

from __future__ import annotations

from builder.publish.index import Published, publish
from builder.publish.upkeep import Changed, Collected, gc, refresh, rollback, unyank, yank

__all__ = ["Changed", "Collected", "Published", "gc", "publish", "refresh", "rollback", "unyank", "yank"]
