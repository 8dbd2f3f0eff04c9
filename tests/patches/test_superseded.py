"""Changes that nobody carries: superseded where their probes hold, needed where they do not, and never silent."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import PatchError
from builder.model import Superseded
from builder.patches import Bench as Verbs
from builder.patches import radar, render, run_verb, standings
from builder.patches.picture import picture
from tests.patches.bench import Bench
from tests.patches.world import LINES, World, edit, package_of, verbs_of

OURS = Superseded("optional-import", "upstream does it itself", ("x: text line 20", "x: not text row 40"), "a bug")


@pytest.fixture
def world(world: World) -> World:
    world.package = replace(world.package, superseded=(OURS,))
    world.files["0.30.0"] = {"x": edit(LINES, 20, word=b"theirs")}
    return world


def test_it_is_asked_of_upstreams_tree_and_not_of_the_patched_one(verbs: Verbs) -> None:
    document = run_verb(["status"], {}, verbs)
    assert json.loads(json.dumps(document)) == document
    package = package_of(document)
    (told,) = package["superseded"]
    assert (document["good"], told["state"], told["failed"]) == (True, "superseded", [])
    assert (told["reason"], told["bug"], told["probe"]) == (OURS.reason, OURS.bug, list(OURS.probe))
    assert "optional-import   superseded: upstream does it itself" in render(document)


def test_where_a_probe_does_not_hold_it_is_needed_and_status_is_not_good(verbs: Verbs) -> None:
    document = run_verb(["status"], {"to": "0.30.0"}, verbs)
    package = package_of(document)
    assert [patch["label"] for patch in package["patches"]] == ["clean", "clean"]
    assert document["good"] is False
    text = render(document)
    assert "optional-import   needed: upstream does it itself" in text
    assert "does not hold: x: text line 20" in text
    assert "x: not text row 40" not in text


def test_the_radar_has_a_row_for_it(verbs: Verbs) -> None:
    document = run_verb(["radar"], {}, verbs)
    package = package_of(document)
    (row,) = package["superseded"]
    states = {version: cell["state"] for version, cell in row["states"].items()}
    assert {version for version, state in states.items() if state == "needed"} == {"0.9", "0.30.0"}
    assert (row["breaks_at"], row["superseded_from"]) == ("0.30.0", "0.100")
    text = render(document)
    assert "optional-import: superseded in 0.20.0 to 0.100 (4 releases), needed in 0.9 to 0.30.0 (2 releases)" in text
    (cells,) = [line.split() for line in text.splitlines() if line.startswith("  optional-import  ")]
    assert cells[1:] == ["!", "sup", "sup", "sup", "!", "sup"]


def test_the_picture_has_a_cell_for_each_release_and_says_the_state(world: World) -> None:
    found = radar(world.package, world.bench.context, world.all(), world.bench.root)
    titles = [item.text for item in ET.fromstring(picture(found)).iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314
    assert "optional-import on 0.20.0: superseded" in titles
    assert "optional-import on 0.30.0: needed" in titles


def test_a_kept_release_is_asked_again_when_the_probes_change(world: World) -> None:
    def states() -> list[str]:
        found = radar(world.package, world.bench.context, [world.release("0.30.0")], world.bench.root)
        return [verdict.state.value for track in found.superseded for verdict in track.verdicts]

    assert states() == states() == ["needed"]
    world.package = replace(world.package, superseded=(replace(OURS, probe=("x: text theirs 20",)),))
    assert states() == states() == ["superseded"]
    world.package = replace(world.package, superseded=())
    assert states() == []


def test_a_probe_that_is_none_is_one_clear_error(world: World) -> None:
    package = replace(world.package, superseded=(replace(OURS, probe=("x: txet y",)),))
    with pytest.raises(PatchError, match="superseded optional-import: unknown kind 'txet'"):
        standings(package, world.bench.source(world.release("0.20.0").tree))


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"new.cpp": b"fine"}, "superseded"),
        ({"old.cpp": b"fine"}, "superseded"),
        ({"new.cpp": b"fault"}, "needed"),
        ({"new.cpp": b"fine", "old.cpp": b"fault"}, "superseded"),
        ({"other.cpp": b""}, "needed"),
    ],
)
def test_the_first_of_several_places_is_asked(bench: Bench, files: dict[str, bytes], state: str) -> None:
    package = replace(bench.package(), superseded=(replace(OURS, probe=("new.cpp|old.cpp: not text fault",)),))
    ((_, told),) = standings(package, bench.source(bench.tree(files)))
    assert told.state.value == state


def test_a_recipe_without_any_says_nothing_of_it(world: World, tmp_path: Path) -> None:
    world.package = replace(world.package, superseded=())
    for verb in ("status", "radar"):
        document = run_verb([verb], {"picture": str(tmp_path)} if verb == "radar" else {}, verbs_of(world))
        assert package_of(document)["superseded"] == []
        assert "optional-import" not in render(document)
