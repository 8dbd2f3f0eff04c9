"""VerifiedWheel → index and image."""

from __future__ import annotations

from builder.publish.index import Published, publish

__all__ = ["Published", "publish"]
