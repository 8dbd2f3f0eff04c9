"""Whatever shape the TOML has, the answer is a list of problems, never a traceback."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builder.recipe.checks import cross_faults, name_faults
from builder.recipe.extend import merged, narrowed
from builder.recipe.load import _recipe
from builder.recipe.structure import faults
from builder.recipe.tables import RecipeFile

GOOD = tomllib.loads((Path(__file__).parents[2] / "recipes/aeon7.toml").read_text())
FILE, ROOT = Path("any.toml"), Path(__file__).parents[2]
LEAVES = st.one_of(st.text(max_size=8), st.integers(), st.booleans(), st.floats(), st.dates())
KEYS = st.sampled_from(["name", "package", "patches", "source", "needs", "sdist", "cuda_arch", "x", ""])
VALUES = st.recursive(LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=8)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401  any TOML value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))][bool(not path) :]


PLACES = places(GOOD)


def put(raw: dict[str, Any], place: tuple[Any, ...], value: object) -> dict[str, Any]:
    whole = copy.deepcopy(raw)
    spot: Any = whole
    for key in place[:-1]:
        spot = spot[key]
    spot[place[-1]] = value
    return whole


@settings(max_examples=300, deadline=None)
@given(place=st.sampled_from(PLACES), value=VALUES)
def test_one_value_of_any_shape_anywhere_is_answered_with_problems(place: tuple[Any, ...], value: object) -> None:
    raw = put(GOOD, place, value)
    told = [*faults(RecipeFile, raw, FILE), *cross_faults(raw, FILE, ROOT), *name_faults(raw, FILE)]
    assert all(str(problem) for problem in told)
    if not told:
        assert _recipe(FILE, RecipeFile.model_validate(narrowed(raw)), ROOT).digest


@settings(max_examples=200, deadline=None)
@given(child=st.dictionaries(st.sampled_from([*GOOD, "packages", "extends", "x"]), VALUES, max_size=4))
def test_a_child_of_any_shape_is_answered_with_problems(child: dict[str, Any]) -> None:
    whole = narrowed(merged(GOOD, child))
    told = [*faults(RecipeFile, child, FILE, partial=True), *cross_faults(whole, FILE, ROOT)]
    assert all(str(problem) for problem in told)
