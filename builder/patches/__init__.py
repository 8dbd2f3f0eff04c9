"""SourceTree → PatchedTree: exact states of every patch, never by fuzz; see DESIGN.md, "Patches"."""

from builder.patches.series import apply_series

__all__ = ["apply_series"]
