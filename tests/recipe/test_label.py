from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from builder.errors import RecipeError
from builder.model import Arch, Package, Prebuilt, Recipe, Target, ToolchainPin
from builder.recipe import load, local_version

HEX = st.text("0123456789abcdef", min_size=40, max_size=40)


def recipe_of(name: str = "aeon7", revision: int = 1, tree: str = "0" * 40, version: str = "0.20.0") -> Recipe:
    package = Package("vllm", version, "c" * 40, "https://example.org", "vllm.tar.gz", "d" * 64, "e" * 40, tree)
    cache = dataclasses.replace(package, name="cache", source="vllm", components=("m",))
    target = Target("linux-aarch64", (Arch(12, 1, "a"),), "3.12")
    return Recipe(name, Path("x.toml"), revision, target, ToolchainPin("13.0.2", "2.11.0", "l"), (package, cache))


def test_it_reads_as_documented() -> None:
    recipe = recipe_of()
    assert re.fullmatch(r"0\.20\.0\+aeon7\.1\.p[0-9a-f]{8}", local_version(recipe, recipe.package("vllm")))


@given(name=st.text(min_size=1, max_size=30), revision=st.integers(1, 10**6), tree=HEX)
def test_no_tool_ever_rewrites_it(name: str, revision: int, tree: str) -> None:
    recipe = recipe_of(name, revision, tree)
    if re.search("[a-z0-9]", name.lower()) is None:
        with pytest.raises(RecipeError, match="nothing that a version can carry"):
            local_version(recipe, recipe.package("vllm"))
        return
    for package in recipe.packages:
        text = local_version(recipe, package)
        assert str(Version(text)) == text
        assert Version(text).public == "0.20.0"


@pytest.mark.parametrize("version", ["0.6.8.post1", "1!2.0rc1", "0.20.0.dev3"])
def test_every_kind_of_upstream_version_stays_itself(version: str) -> None:
    recipe = recipe_of(version=version)
    assert Version(local_version(recipe, recipe.package("vllm"))).public == version


CHANGES: list[Callable[[Recipe, Package], tuple[Recipe, Package]]] = [
    lambda r, p: (r, dataclasses.replace(p, result_tree="1" * 40)),
    lambda r, p: (r, dataclasses.replace(p, patch_digests=("f" * 64,))),
    lambda r, p: (r, dataclasses.replace(p, components=("_C",))),
    lambda r, p: (r, dataclasses.replace(p, prebuilt=Prebuilt("w", "a" * 64, ("f",), "why"))),
    lambda r, p: (r, dataclasses.replace(p, requires=("flashinfer-cubin==0.6.8",))),
    lambda r, p: (dataclasses.replace(r, revision=2), p),
    lambda r, p: (dataclasses.replace(r, name="other"), p),
    lambda r, p: (dataclasses.replace(r, target=dataclasses.replace(r.target, cuda_arch=(Arch(12, 0, "f"),))), p),
    lambda r, p: (dataclasses.replace(r, toolchain=ToolchainPin("13.1.0", "2.11.0", "l")), p),
    lambda r, p: (dataclasses.replace(r, toolchain=ToolchainPin("13.0.2", "2.12.0", "l")), p),
]


@pytest.mark.parametrize("change", CHANGES)
def test_it_changes_with_what_the_wheel_is_made_of(change: Callable[[Recipe, Package], tuple[Recipe, Package]]) -> None:
    recipe = recipe_of()
    package = recipe.package("vllm")
    assert local_version(*change(recipe, package)) != local_version(recipe, package)


def test_a_module_cache_starts_with_the_version_that_it_serves(root: Path) -> None:
    recipe = load("good", root)
    served = local_version(recipe, recipe.package("flashinfer-python"))
    assert local_version(recipe, recipe.package("flashinfer-jit-cache")).startswith(f"{served}.c")


@pytest.mark.parametrize("name", ["flashinfer-python", "flashinfer-jit-cache"])
def test_a_wheel_that_names_another_changes_with_it(root: Path, name: str) -> None:
    recipe = load("good", root)
    packages = tuple(
        dataclasses.replace(p, patch_digests=("f" * 64,), components=("m",)) if p.name == name else p
        for p in recipe.packages
    )
    changed = dataclasses.replace(recipe, packages=packages)
    vllm = recipe.package("vllm")
    assert local_version(changed, vllm) != local_version(recipe, vllm)
