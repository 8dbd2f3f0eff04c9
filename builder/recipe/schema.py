"""The JSON schema of a recipe file, for editors; the loader stays the judge."""

from __future__ import annotations

import json
from typing import Any

from builder.recipe.tables import RecipeFile


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a file under recipes/. What a child may leave out to its parent is not required."""
    schema = RecipeFile.model_json_schema()
    whole = schema.pop("required")
    schema["anyOf"] = [{"required": ["extends"]}, {"required": whole}]
    for name in ("TargetTable", "ToolchainTable", "PrebuiltTable", "ImageTable"):
        schema["$defs"][name].pop("required")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """The bytes of recipes/schema.json, stable."""
    return json.dumps(json_schema(), indent=2, sort_keys=True) + "\n"
