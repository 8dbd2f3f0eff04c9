"""TOML to frozen records: recipes and toolchain locks, strict, every problem at once."""

from __future__ import annotations

from builder.recipe.label import NAMED, local_version
from builder.recipe.load import digest, known, load
from builder.recipe.lock import (
    Want,
    for_role,
    lock_text,
    locked,
    make_lock,
    read_base,
    read_lock,
    read_wants,
    write_lock,
)
from builder.recipe.schema import json_schema, schema_text

__all__ = [
    "NAMED",
    "Want",
    "digest",
    "for_role",
    "json_schema",
    "known",
    "load",
    "local_version",
    "lock_text",
    "locked",
    "make_lock",
    "read_base",
    "read_lock",
    "read_wants",
    "schema_text",
    "write_lock",
]
