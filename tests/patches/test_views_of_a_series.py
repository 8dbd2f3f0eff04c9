"""Overlap, radar, explanations, pull requests, promises and the verbs over them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from builder.errors import FetchError, PatchError, UsageError, WheelError
from builder.model import Contains, Package
from builder.patches import Bench as Verbs
from builder.patches import (
    Promise,
    apply_series,
    broken_promises,
    overlaps,
    promises,
    prove,
    radar,
    render,
    run_verb,
)
from builder.patches.picture import picture
from builder.patches.pulls import from_web
from builder.patches.verbs import wanted_releases
from tests.patches.bench import Bench, GitDiff
from tests.patches.world import LINES, World, edit

# -- overlap ------------------------------------------------------------------------------------


def pairs(bench: Bench, base: bytes, *diffs: bytes) -> list[tuple[str, str, str]]:
    names = [bench.save(f"000{n}-x.patch", diff) for n, diff in enumerate(diffs, 1)]
    found = overlaps(bench.package(*names), bench.source(bench.tree({"x": base})), bench.root)
    return [(f"{item.first[3]}{item.second[3]}", item.relation, item.order) for item in found]


def test_far_lines_are_free_near_lines_and_same_lines_are_fixed(bench: Bench, git_diff: GitDiff) -> None:
    one, two, three = edit(LINES, 10), edit(LINES, 10, 13), edit(LINES, 10, 13, 50)
    four = three.replace(b"row 13\n", b"row 13 again\n")
    diffs = [git_diff({"x": a}, {"x": b}) for a, b in ((LINES, one), (one, two), (two, three), (three, four))]
    assert pairs(bench, LINES, *diffs) == [
        ("12", "near", "fixed"),
        ("13", "file", "free"),
        ("14", "near", "needs 0002-x.patch"),
        ("23", "file", "free"),
        ("24", "same", "fixed"),
        ("34", "file", "free"),
    ]


def test_lines_are_followed_through_patches_between(bench: Bench, git_diff: GitDiff) -> None:
    one = edit(LINES, 30)
    two = b"top\n" * 20 + one
    three = two.replace(b"row 30\n", b"row thirty\n")
    diffs = [git_diff({"x": a}, {"x": b}) for a, b in ((LINES, one), (one, two), (two, three))]
    names = [bench.save(f"000{n}-x.patch", diff) for n, diff in enumerate(diffs, 1)]
    found = overlaps(bench.package(*names), bench.source(bench.tree({"x": LINES})), bench.root)
    (last,) = [item for item in found if (item.first, item.second) == (names[0], names[2])]
    assert (last.relation, last.lines) == ("same", ((50, 50),))


# -- radar --------------------------------------------------------------------------------------


def test_the_table_says_where_each_patch_stands(world: World) -> None:
    for _ in range(2):  # the second time from the store
        found = radar(world.package, world.bench.context, world.all(), world.bench.root)
        assert found.releases == ("0.9", "0.20.0", "0.20.1", "0.21.0", "0.100")
        first, second = found.tracks
        assert [verdict.label for verdict in first.verdicts] == [
            "conflict(missing)", "clean", "offset(+1)", "contained", "contained"
        ]  # fmt: skip
        assert [verdict.label for verdict in second.verdicts] == [
            "conflict(missing)", "clean", "offset(+1)", "clean", "superseded"
        ]  # fmt: skip
        assert (first.contained_from, first.superseded_from, first.breaks_at) == ("0.21.0", "", "")
        assert (second.superseded_from, second.fits) == ("0.100", ("0.20.0", "0.20.1", "0.21.0"))


def test_the_first_break_is_after_the_pin(world: World) -> None:
    world.files["0.22"] = {"x": edit(LINES, 9, word=b"theirs")}
    found = radar(world.package, world.bench.context, world.all(), world.bench.root)
    assert [track.breaks_at for track in found.tracks] == ["0.22", ""]


def test_kept_verdicts_are_those_of_the_same_patches(world: World, git_diff: GitDiff) -> None:
    releases = [world.release("0.20.0")]
    assert radar(world.package, world.bench.context, releases, world.bench.root).tracks[0].verdicts[0].label == "clean"
    world.bench.save("0001-ten.patch", git_diff({"x": edit(LINES, 11)}, {"x": edit(LINES, 11, 12)}))
    changed = radar(world.package, world.bench.context, releases, world.bench.root)
    assert changed.tracks[0].verdicts[0].label == "conflict(context)"


def test_the_picture_is_svg_with_a_cell_for_each(world: World) -> None:
    found = radar(world.package, world.bench.context, world.all(), world.bench.root)
    titles = [item.text for item in ET.fromstring(picture(found)).iter("{http://www.w3.org/2000/svg}title")]  # noqa: S314
    assert "0001-ten on 0.20.1: offset(+1)" in titles
    assert len([title for title in titles if title and " on " in title]) == 10


# -- pull requests ------------------------------------------------------------------------------

ITEM = Contains(2520, "a" * 40, ("x: text row 10",))


def wanting(world: World, **changes: object) -> Package:
    item = replace(ITEM, **changes)  # type: ignore[arg-type]
    return replace(world.package, git="https://example.org/x.git", contains=(item,))


def test_a_probe_proves_a_pull_request(world: World) -> None:
    (pull,) = prove(wanting(world), world.bench.source(world.release("0.21.0").tree))
    assert (pull.state, pull.proof) == ("contained", "probe")


def test_ancestry_proves_a_pull_request_and_must_agree_with_the_probe(world: World) -> None:
    objects, tree = world.bench.objects, world.release("0.21.0").tree
    merge = objects.commit(tree, "the merge", objects.commit(tree, "before"))
    head = objects.commit(tree, "later", merge)
    for source, commit in (
        (replace(world.bench.source(tree), commit=head), "b" * 40),
        (world.bench.source(tree), head),
    ):
        (pull,) = prove(replace(wanting(world, commit=merge), commit=commit), source)
        assert (pull.state, pull.proof) == ("contained", "ancestry and probe")
    source = replace(world.bench.source(tree), commit=head)
    assert prove(wanting(world, commit=merge, probe=()), source)[0].proof == "ancestry"
    with pytest.raises(PatchError, match="contradict each other"):
        prove(wanting(world, commit=merge, probe=("x: text nothing of it",)), source)
    with pytest.raises(PatchError, match="contradict each other"):
        prove(wanting(world), source)


def test_history_that_is_not_whole_proves_nothing(world: World) -> None:
    objects, tree = world.bench.objects, world.release("0.21.0").tree
    assert objects.is_ancestor("a" * 40, objects.commit(tree, "alone")) is None
    assert objects.is_ancestor("a" * 40, "b" * 40) is None


def test_a_lacking_pull_request_is_taken_as_a_patch_with_a_digest(world: World, git_diff: GitDiff) -> None:
    asked = []

    def fetch(address: str, sha256: str) -> bytes:
        asked.append((address, sha256))
        return git_diff({"x": LINES}, {"x": edit(LINES, 10)})

    source = world.bench.source(world.release("0.20.0").tree)
    (pull,) = prove(wanting(world, sha256="f" * 64), source, fetch)
    assert asked == [(f"https://example.org/x/commit/{'a' * 40}.patch", "f" * 64)]
    assert pull.state == "patch"
    assert pull.patch is not None
    assert pull.patch.faults == ()


def test_a_brought_pull_request_goes_before_the_series(world: World, git_diff: GitDiff) -> None:
    data = git_diff({"x": LINES}, {"x": edit(LINES, 50)})
    digest = world.bench.context.store.put([data]).name
    package = wanting(world, probe=("x: text row 50",), sha256=digest)
    source = world.bench.source(world.release("0.20.0").tree)
    done = apply_series(package, source, world.bench.context, world.bench.root, accept=True)
    assert [patch.file for patch in done.applied] == ["pr-2520.patch", *world.names]
    assert world.bench.read(done.tree) == {"x": edit(LINES, 10, 40, 50)}


def test_a_lacking_pull_request_that_cannot_be_had_is_one_clear_error(world: World) -> None:
    def fetch(address: str, sha256: str) -> bytes:
        raise FetchError(f"no network for {address} {sha256}")

    source = world.bench.source(world.release("0.20.0").tree)
    with pytest.raises(PatchError, match="no network to bring it"):
        prove(wanting(world), source)
    with pytest.raises(PatchError, match="no pinned sha256"):
        prove(wanting(world), source, fetch)
    with pytest.raises(PatchError, match="cannot be had") as caught:
        prove(wanting(world, sha256="f" * 64), source, fetch)
    assert isinstance(caught.value.__cause__, FetchError)
    with pytest.raises(PatchError, match="nothing can show"):
        prove(wanting(world, probe=()), source)
    with pytest.raises(PatchError, match="is not PATH"):
        prove(wanting(world, probe=("nonsense",)), source)


@pytest.mark.parametrize("git", ["git@example.org:x.git", "http://127.0.0.1:9/x.git"])
def test_an_address_that_gives_nothing_is_an_error_with_its_cause(world: World, git: str) -> None:
    package = replace(wanting(world, sha256="f" * 64), git=git)
    with pytest.raises(PatchError, match="cannot be had") as caught:
        prove(package, world.bench.source(world.release("0.20.0").tree), from_web(world.bench.context.store))
    assert isinstance(caught.value.__cause__, FetchError)


# -- promises -----------------------------------------------------------------------------------


def test_a_wheel_is_asked_what_its_patches_promised(bench: Bench, git_diff: GitDiff, tmp_path: Path) -> None:
    head = b"Expects: vllm/x.py: def new\nExpects: csrc/x.hpp: text guard\nExpects: setup.py: text new\n---\n"
    name = bench.save("0001-new.patch", head + git_diff({}, {"vllm/x.py": b"def new(): ...\n"}))
    asked = promises(bench.package(name), bench.root)
    assert [item.probe.path for item in asked] == ["vllm/x.py", "csrc/x.hpp", "setup.py"]
    for content, broken in ((b"def new(): ...\n", ()), (b"def old(): ...\n", asked[:1])):
        wheel = tmp_path / "vllm-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("vllm/x.py", content)
        assert broken_promises(asked, wheel) == broken
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/y.py", b"")
    assert broken_promises(asked, wheel) == asked[:1]


def test_promises_of_patches_that_were_not_applied_are_not_asked(world: World) -> None:
    assert promises(world.package, world.bench.root) == ()


def test_a_wheel_that_is_none_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"no zip")
    with pytest.raises(WheelError, match="cannot be read"):
        broken_promises(list[Promise](), tmp_path / "x.whl")


# -- verbs --------------------------------------------------------------------------------------


def test_status_is_good_where_it_is_pinned(verbs: Verbs, world: World) -> None:
    world.bench.save("0009-forgotten.patch", b"")
    document = run_verb(["status"], {}, verbs)
    assert json.loads(json.dumps(document)) == document
    assert (document["good"], document["version"]) == (True, 1)
    text = render(document)
    assert "vllm 0.20.0: 2 patches" in text
    assert "not in the recipe: vllm/0009-forgotten.patch" in text


def test_status_on_another_release_explains(verbs: Verbs, world: World) -> None:
    world.files["0.22.0"] = {"lib/x": edit(LINES, 9, word=b"theirs")}
    world.files["0.23.0"] = {"x": edit(LINES, 9, word=b"theirs")}
    text = render(run_verb(["status"], {"to": "0.22.0", "releases": ">=0"}, verbs))
    assert "the file is now lib/x (98% alike)" in text
    assert "conflict(moved)" in text
    text = render(run_verb(["status"], {"to": "0.23.0", "releases": ">=0"}, verbs))
    assert "its lines are in 0.20.1, no longer in 0.21.0" in text
    assert "expected (left), found at line 7 (right)" in text
    assert "≠ theirs 9" in text


def test_radar_and_overlap_are_text_json_and_a_picture(verbs: Verbs, tmp_path: Path) -> None:
    document = run_verb(["radar"], {"picture": str(tmp_path)}, verbs)
    assert (tmp_path / "radar-vllm.svg").is_file()
    text = render(document)
    assert "contained from 0.21.0" in text
    assert "superseded from 0.100" in text
    assert "0001-ten.patch and 0002-forty.patch: other lines of x; either order does" in render(
        run_verb(["overlap"], {}, verbs)
    )


def test_refresh_goes_through_the_verbs(verbs: Verbs, world: World) -> None:
    world.files["0.22.0"] = {"x": LINES.replace(b"line 10\n", b"theirs\n")}
    stopped = run_verb(["refresh"], {"to": "0.22.0"}, verbs)
    assert stopped["good"] is False
    assert "`refresh continue`" in render(stopped)
    assert "nothing was changed" in render(run_verb(["refresh", "abort"], {}, verbs))
    done = run_verb(["refresh"], {"to": "0.20.1"}, verbs)
    assert done["good"] is True
    assert "patch files and recipe are written" in render(done)


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (["statsu"], {}, "did you mean status?"),
        (["status", "now"], {}, "does not take now"),
        (["radar"], {"to": "1"}, "does not take to="),
        (["refresh"], {}, "to=VERSION"),
        (["refresh"], {"to": "soon"}, "is no version"),
        (["refresh", "continue", "skip"], {}, "does not take"),
        (["status"], {"package": "vlm"}, "did you mean vllm?"),
    ],
)
def test_bad_usage_is_said(verbs: Verbs, words: list[str], options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_verb(words, options, verbs)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("version", "option", "wanted"),
    [
        ("0.20.0", "", ">=0.16"),
        ("0.6.8", "", ">=0.6.4"),
        ("0.2", "", ">=0.0"),
        ("0.20.0", ">=0.18,<0.22", ">=0.18,<0.22"),
        ("0.20.0", "other>=1;vllm>=0.19,<1", ">=0.19,<1"),
        ("0.20.0", "other>=1", ">=0.16"),
    ],
)
def test_ranges_of_releases(bench: Bench, version: str, option: str, wanted: str) -> None:
    assert wanted_releases(replace(bench.package(), version=version), option) == wanted


def test_a_range_that_is_none_is_said(bench: Bench) -> None:
    with pytest.raises(UsageError, match="no range of releases"):
        wanted_releases(bench.package(), "newest")
