"""Records, bills and statements of which any part is something else: said in words, never a traceback."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from builder.errors import WheelError
from builder.supply import (
    Run,
    facts_in,
    facts_of,
    lock_material,
    read_record,
    read_statement,
    recipe_materials,
    sbom,
    statement,
)
from builder.verify.provenance import _pinned
from tests.supply.records import ROOT, package, recipe, record

STRANGE: tuple[Any, ...] = (None, 1, "x", [None], {"x": 1})


def slim() -> dict[str, Any]:
    """A whole record with one of each thing."""
    value = record(externals=False)
    value["toolchain"]["files"] = value["toolchain"]["files"][:1]
    value["patches"] = value["patches"][:1]
    value["externals"] = [{"name": "e", "git": "https://github.com/o/e.git", "revision": "v1", "tree": "e" * 40}]
    return value


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every part of a document, itself excluded."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from places(part, (*path, key))


def damaged(value: dict[str, Any]) -> Iterator[Any]:
    """The document with each part replaced by each strange thing, and with each part missing."""
    for path in places(value):
        for other in (*STRANGE, ...):
            changed = copy.deepcopy(value)
            spot: Any = changed
            for key in path[:-1]:
                spot = spot[key]
            if other is ...:
                del spot[path[-1]]
            else:
                spot[path[-1]] = other
            yield changed


def test_a_record_is_readable_as_a_whole_or_refused() -> None:
    refused = 0
    for value in damaged(slim()):
        try:
            read = read_record(json.dumps(value).encode(), "there")
        except WheelError:
            refused += 1
        else:
            facts_of(read)
    assert refused > 100


def test_a_bill_is_read_or_refused() -> None:
    wanted = facts_of(slim())
    for value in damaged(json.loads(sbom(slim()))):
        with suppress(ValueError):
            assert sorted(facts_in(json.dumps(value).encode()).keys() | wanted.keys())


def test_a_statement_is_read_or_refused() -> None:
    made = json.loads(statement("x.whl", "0" * 64, slim(), lock_material(recipe(), ROOT), Run()))
    pins = recipe_materials(recipe(), package(), ROOT)
    for value in damaged(made):
        with suppress(ValueError):
            said = read_statement(json.dumps(value).encode())
            assert list(_pinned(said.materials, pins, package())) is not None


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff", b"{", b"", b'"' + b"x" * 10])
def test_bytes_that_are_no_json_of_ours(data: bytes) -> None:
    with pytest.raises(WheelError):
        read_record(data, "there")
    for read in (facts_in, read_statement):
        with pytest.raises(ValueError, match=r"."):
            read(data)
