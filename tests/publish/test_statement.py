"""Provenance statements in the index: they come with their wheel, the first one stays, and no more is claimed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import pytest

from builder.errors import PublishError
from builder.publish import gc, publish, refresh, statements
from builder.publish.index import read_project
from builder.publish.shelf import FolderShelf
from builder.supply import Run, read_statement
from tests.publish.conftest import MakeWheel
from tests.publish.reader import listed, snapshot
from tests.publish.wheels import verified
from tests.supply.records import ROOT, recipe
from tests.supply.wheels import wheel

OTHER = Run(builder="https://forge.invalid/other/build.yml@refs/heads/main")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return wheel(tmp_path / "out")


def stated(path: Path, run: Run | None = None) -> dict[str, bytes]:
    return statements([verified(path)], recipe(), ROOT, run)


def entry(index: Path) -> dict[str, Any]:
    (file,) = json.loads((index / "simple/vllm/index.json").read_bytes())["files"]
    read: dict[str, Any] = file
    return read


def fetched(index: Path) -> bytes:
    """The statement as a client would find it: by the address on the JSON page."""
    url = urljoin("http://h/simple/vllm/", entry(index)["_statement"]["url"])
    return (index / unquote(url.removeprefix("http://h/"))).read_bytes()


def test_a_statement_comes_with_its_wheel(index: Path, ours: Path) -> None:
    publish([verified(ours)], index, statements=stated(ours))
    data = fetched(index)
    assert data == stated(ours)[ours.name]
    assert read_statement(data).sha256 == listed(index)[ours.name]
    assert publish([verified(ours)], index, statements=stated(ours)).pages == ()
    assert refresh(index).pages == ()


def test_the_index_claims_no_attestation_that_it_has_not(index: Path, ours: Path) -> None:
    publish([verified(ours)], index, statements=stated(ours))
    assert "provenance" not in entry(index)
    assert b"data-provenance" not in (index / "simple/vllm/index.html").read_bytes()


def test_the_first_statement_stays(index: Path, ours: Path) -> None:
    publish([verified(ours)], index, statements=stated(ours))
    before = entry(index)
    publish([verified(ours)], index, statements=stated(ours, OTHER))
    assert entry(index) == before
    assert read_statement(fetched(index)).builder == Run().builder


def test_a_wheel_that_came_without_one_may_get_it_later(index: Path, ours: Path) -> None:
    publish([verified(ours)], index)
    assert "_statement" not in entry(index)
    done = publish([verified(ours)], index, statements=stated(ours))
    assert done.unchanged == (ours.name,)
    assert fetched(index) == stated(ours)[ours.name]


@pytest.mark.parametrize("kind", ["other", "damaged"])
def test_a_statement_of_something_else_is_refused_and_nothing_changes(
    index: Path, ours: Path, make_wheel: MakeWheel, kind: str
) -> None:
    publish([make_wheel()], index)
    before = snapshot(index)
    data = stated(ours)[ours.name]
    wrong = b"{}" if kind == "damaged" else data.replace(ours.name.encode(), b"other.whl")
    with pytest.raises(PublishError, match="provenance statement is not of"):
        publish([verified(ours)], index, statements={ours.name: wrong})
    assert snapshot(index) == before


def test_a_wheel_of_another_tool_has_none(make_wheel: MakeWheel) -> None:
    with pytest.raises(PublishError, match="has no build record"):
        statements([make_wheel()], recipe(), ROOT)


def test_gc_keeps_statements_as_long_as_their_wheels(index: Path, ours: Path, make_wheel: MakeWheel) -> None:
    publish([verified(ours)], index, statements=stated(ours))
    far = datetime.now(UTC) + timedelta(days=9)
    assert gc(index, keep=1, now=far).deleted == ()
    assert fetched(index)
    publish([make_wheel("vllm", "9.0")], index)
    retired = gc(index, keep=1)
    assert (retired.retired, retired.deleted) == ((ours.name,), ())
    gone = gc(index, keep=1, now=far).deleted
    assert sorted(Path(key).suffixes[-1] for key in gone) == [".json", ".metadata", ".whl"]


def test_pages_of_before_statements_are_read_as_they_were(index: Path, ours: Path) -> None:
    publish([verified(ours)], index)
    (file,) = read_project(FolderShelf(index), "vllm").files
    assert file.statement_sha256 == ""
    assert len(file.keys) == 2
