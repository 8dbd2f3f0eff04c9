"""TOML to frozen records: recipes and toolchain locks, strict, every problem at once."""

from __future__ import annotations

from builder.recipe.label import local_version
from builder.recipe.load import digest, known, load
from builder.recipe.schema import json_schema, schema_text

__all__ = ["digest", "json_schema", "known", "load", "local_version", "schema_text"]
