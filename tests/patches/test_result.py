"""The tree that comes of a series is held against the recipe's, and named as git names it without being written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from builder.model import Contains
from builder.patches import Bench as Verbs
from builder.patches import render, result_of, run_verb, status
from builder.patches.result import tree_id
from builder.patches.view import View, write_tree
from tests.patches.bench import Bench
from tests.patches.world import LINES, World, edit, package_of, verbs_of

OTHER = "ab" * 20


def test_status_says_that_the_tree_is_another_than_the_pinned_one(world: World) -> None:
    right = world.package.result_tree
    world.package = replace(world.package, result_tree=OTHER)
    document = run_verb(["status"], {}, verbs_of(world))
    assert json.loads(json.dumps(document)) == document
    told = package_of(document)["result_tree"]
    assert (document["good"], told["expected"], told["found"]) == (False, OTHER, right)
    text = render(document)
    assert "vllm: the patched tree is another than the recipe's result_tree" in text
    assert f"expected {OTHER}, found {right}" in text
    assert f'next: review the series, then set result_tree = "{right}" in the recipe' in text


def test_a_tree_that_was_never_pinned_is_said(world: World) -> None:
    world.package = replace(world.package, result_tree="0" * 40)
    document = run_verb(["status"], {}, verbs_of(world))
    assert document["good"] is False
    assert "vllm: the patched tree is not pinned yet" in render(document)


def test_the_pinned_tree_is_no_finding(verbs: Verbs, world: World) -> None:
    document = run_verb(["status"], {}, verbs)
    told = package_of(document)["result_tree"]
    assert (document["good"], told["found"], told["message"], told["next"]) == (True, world.package.result_tree, "", "")


def test_on_another_release_and_after_a_conflict_no_tree_is_expected(world: World) -> None:
    world.files["0.20.0"] = {"x": edit(LINES, 9, word=b"theirs")}
    for options in ({"to": "0.20.1"}, {}):
        document = run_verb(["status"], options, verbs_of(world))
        assert package_of(document)["result_tree"] is None
        assert document["good"] is bool(options)


def test_a_pull_request_that_a_build_would_bring_first_leaves_the_tree_open(world: World) -> None:
    source = world.bench.source(world.release("0.20.0").tree)
    steps = status(world.package, source, world.bench.root)[0]
    for probe, known in (("x: text line 1", True), ("x: text theirs", False)):
        package = replace(world.package, contains=(Contains(1, "a" * 40, (probe,), "f" * 64),))
        assert (result_of(package, source, steps) is not None) is known


def test_without_patches_the_tree_is_upstreams(bench: Bench) -> None:
    tree = bench.tree({"a": b"1"})
    result = result_of(bench.package(result=tree), bench.source(tree), ())
    assert result is not None
    assert result.matches


FILES = {"a": b"1", "a.b": b"2", "a-b/c": b"3", "lib/a/deep": b"4", "lib/a.py": b"5", "lib/a0": b"6", "\u00e4/x": b"7"}


@pytest.mark.parametrize(
    "changes",
    [
        {"a": b"new"},
        {"lib/a/deep": None},
        {"lib/a/more/and/more": b"x", "zz/top": b"y"},
        {"a": None, "a/b": b"now a folder"},
        {"\u00e4/x": b"8", "run": b"#!"},
    ],
)
def test_a_tree_is_named_as_git_names_it(bench: Bench, changes: dict[str, bytes | None]) -> None:
    view = View(bench.blobs, bench.tree(FILES, {"lib/a.py": 0o100755, "a-b/c": 0o120000}))
    for path, data in changes.items():
        if data is None:
            view.remove(path)
        else:
            view.put(path, data, 0o100755 if data == b"#!" else 0o100644)
    named = tree_id(view)
    assert not bench.objects.has(named)
    assert write_tree(bench.objects, view) == named


def test_an_unchanged_tree_keeps_its_name(bench: Bench) -> None:
    view = bench.view(FILES)
    view.put("a", FILES["a"], 0o100644)
    assert tree_id(view) == view.tree
