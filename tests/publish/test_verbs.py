from datetime import UTC, datetime
from pathlib import Path

import pytest

from builder.errors import PublishError, UsageError
from builder.publish import Published, publish, run_verb
from builder.publish.verbs import told
from tests.publish.conftest import MakeWheel
from tests.publish.reader import listed


@pytest.fixture
def index(tmp_path: Path, make_wheel: MakeWheel) -> str:
    place = tmp_path / "index"
    publish([make_wheel(version="1.0")], place, now=datetime(2026, 1, 1, tzinfo=UTC))
    publish([make_wheel(version="2.0")], place, now=datetime(2026, 2, 1, tzinfo=UTC))
    return str(place)


def test_rollback_takes_back_the_newest_and_unyank_offers_it_again(index: str) -> None:
    document, text = run_verb(["rollback"], {}, index)
    (name,) = document["files"]
    assert "2.0" in name
    assert name in text
    again, _ = run_verb(["unyank", name], {}, index)
    assert again["files"] == (name,)


def test_rollback_to_a_time_without_a_zone_means_utc(index: str) -> None:
    document, _ = run_verb(["rollback"], {"to": "2026-01-15T00:00:00", "reason": "trap on 12.1"}, index)
    assert len(document["files"]) == 1
    assert "trap on 12.1" in (Path(index) / "simple/spark-kernels/index.html").read_text()


def test_gc_keeps_what_is_asked(index: str) -> None:
    document, _ = run_verb(["gc"], {"keep": "1", "locks": "none"}, index)
    assert len(document["retired"]) == 1
    assert len(listed(Path(index))) == 1


@pytest.mark.parametrize(
    ("words", "options", "says"),
    [
        ([], {}, "no verb ''"),
        (["rolback"], {}, "did you mean rollback"),
        (["gc"], {}, "keep how many"),
        (["gc"], {"keep": "many"}, "keep how many"),
        (["gc"], {"keep": "0"}, "keep how many"),
        (["gc"], {"keep": "²"}, "keep how many"),
        (["gc"], {"keep": "1"}, "this index keeps no lock"),
        (["gc"], {"keep": "1", "locks": ""}, "this index keeps no lock"),
        (["rollback"], {"to": "0001-01-01T00:00:00+14:00"}, "is no time"),
        (["lock"], {}, "with no words"),
        (["lock", "add"], {}, "publish lock add"),
        (["lock", "list", "x"], {}, "publish lock list x"),
        (["lock", "remove"], {}, "publish lock remove"),
        (["lock", "keep", "x"], {}, "publish lock keep x"),
        (["gc"], {"keep": "1", "too": "x"}, "does not take too="),
        (["yank"], {}, "with no words"),
        (["refresh", "x"], {}, "with these words"),
        (["rollback"], {"to": "yesterday"}, "is no time"),
    ],
)
def test_bad_usage_is_told(words: list[str], options: dict[str, str], says: str, index: str) -> None:
    before = listed(Path(index))
    with pytest.raises(UsageError, match=says):
        run_verb(words, options, index)
    assert listed(Path(index)) == before


@pytest.mark.parametrize("place", ["missing", "empty", "foreign"])
@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["refresh"], {}),
        (["rollback"], {}),
        (["gc"], {"keep": "1", "locks": "none"}),
        (["lock", "list"], {}),
        (["lock", "add", "x"], {}),
        (["yank", "x.whl"], {}),
        (["unyank", "x.whl"], {}),
    ],
)
def test_a_place_that_is_no_index_is_said_and_left_alone(
    tmp_path: Path, words: list[str], options: dict[str, str], place: str
) -> None:
    folder = tmp_path / place
    if place != "missing":
        folder.mkdir()
    if place == "foreign":
        (folder / "simple").write_text("a file of somebody's")
        (folder / "files").mkdir()
        (folder / "files/theirs.whl").write_bytes(b"theirs")
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    with pytest.raises(PublishError, match="no index here") as caught:
        run_verb(words, options, str(folder))
    assert str(folder) in caught.value.where
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_a_verbs_text_names_the_index_as_it_is(index: str) -> None:
    _, text = told("add", index, Published(index, ("a.whl", "b.whl"), (), (), ()))
    assert f"\n  index: {index}\n" in text
    assert "a.whl, b.whl" in text
