from dataclasses import replace
from pathlib import Path

from builder.compile.package import DRIVERS, _versions
from builder.recipe import NAMED, load

ROOT = Path(__file__).parents[2]


def test_a_wheel_depends_on_versions_that_it_names_and_on_no_other() -> None:
    recipe = load("smoke", ROOT)
    vllm = recipe.package("vllm")
    changed = tuple(replace(p, result_tree="0" * 40) if p is vllm else p for p in recipe.packages)
    other = replace(recipe, packages=changed)
    for name in ("flashinfer-python", "flashinfer-jit-cache"):
        assert _versions(recipe, recipe.package(name)) == _versions(other, other.package(name))
    assert _versions(recipe, vllm) != _versions(other, other.package("vllm"))
    assert set(_versions(recipe, vllm)) == set(DRIVERS)


def test_every_driver_says_which_versions_its_wheels_name() -> None:
    assert NAMED.keys() == DRIVERS.keys()
