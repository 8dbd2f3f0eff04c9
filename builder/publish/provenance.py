"""The provenance statements of wheels that are about to be published: unsigned, for CI's tools to sign."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builder.errors import PublishError
from builder.model import Recipe, VerifiedWheel
from builder.supply import Run, lock_material, record_in, statement


def statements(wheels: Sequence[VerifiedWheel], recipe: Recipe, root: Path, run: Run | None = None) -> dict[str, bytes]:
    """File name → statement of each wheel, made from the build record inside it.

    `root` holds recipes/. Raises PublishError for a wheel without a record, RecipeError for a lock
    that cannot be read.
    """
    lock, by = lock_material(recipe, root), run or Run.here()
    made = {}
    for each in wheels:
        record = record_in(each.wheel.path)
        if record is None:
            raise PublishError(
                f"{each.wheel.path.name} has no build record",
                where=str(each.wheel.path),
                expected="a wheel that this tool built",
                remedy="build it again",
            )
        made[each.wheel.path.name] = statement(each.wheel.path.name, each.wheel.sha256, record, lock, by)
    return made
