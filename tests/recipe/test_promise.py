"""What recipes promise to an index: their other packages exactly, and the platforms that they name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from builder.model import Promise
from builder.recipe import load, local_version
from builder.recipe.promise import promises

Write = Callable[..., Path]
BOTH = '"linux-aarch64"\nplatforms = ["linux-aarch64", "linux-x86_64"]'
NAMES = ("flashinfer-python", "flashinfer-jit-cache", "vllm")


def test_a_whole_recipe_of_one_platform_promises_no_more(root: Path) -> None:
    assert promises([load("good", root)], {("good", name) for name in NAMES}) == frozenset()


def test_what_is_not_at_hand_is_promised_in_the_version_that_the_recipe_gives(root: Path) -> None:
    recipe = load("good", root)
    found = promises([recipe], {("good", name) for name in NAMES[:2]})
    assert found == {Promise("vllm", "linux-aarch64", local_version(recipe, recipe.package("vllm")))}


def test_a_platform_is_promised_until_the_recipe_that_builds_it_is_named(root: Path, write: Write) -> None:
    write("arm", ('"linux-aarch64"', BOTH))
    arm = load("arm", root)
    x86 = replace(arm, name="x86", target=replace(arm.target, platform="linux-x86_64"))
    mine = {("arm", name) for name in NAMES}
    assert promises([arm], mine) == {Promise(name, "linux-x86_64") for name in NAMES}
    theirs = {Promise(name, "linux-x86_64", local_version(x86, x86.package(name))) for name in NAMES}
    assert promises([arm, x86], mine) == theirs
    assert promises([arm, x86], {*mine, *(("x86", name) for name in NAMES)}) == frozenset()
