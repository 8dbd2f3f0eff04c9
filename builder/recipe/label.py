"""The local version of our wheels: which recipe, which revision, and of which content."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from packaging.version import Version

from builder.errors import RecipeError
from builder.model import Package, Recipe
from builder.store import key_of

NAMED: Mapping[str, tuple[str, ...]] = {
    "flashinfer-python": (),
    "flashinfer-jit-cache": ("flashinfer-python",),
    "vllm": ("flashinfer-python", "flashinfer-jit-cache"),
}
"""Packages of the recipe whose exact versions a wheel names: a change of any other leaves it as it is."""


def local_version(recipe: Recipe, package: Package) -> str:
    """`0.20.0+aeon7.1.p1a2b3c4d`: changes with the series, the components, the archs, the toolchain and what it names.

    A package with a `source` carries that package's whole version and a hash of its own
    (`….p1a2b3c4d.c5e6f7a8b`), because FlashInfer accepts a module cache only when its version
    starts with FlashInfer's. Raises RecipeError when the recipe's name has no letter or digit.
    """
    if package.source:
        return f"{local_version(recipe, recipe.package(package.source))}.c{_content(recipe, package)}"
    return f"{Version(package.version).public}+{_segments(recipe.name)}.{recipe.revision}.p{_content(recipe, package)}"


def _content(recipe: Recipe, package: Package) -> str:
    parts = (
        package.result_tree,
        package.patch_digests,
        package.components,
        None if package.prebuilt is None else dataclasses.asdict(package.prebuilt),
        [dataclasses.asdict(external) for external in package.externals],
        [str(arch) for arch in recipe.target.cuda_arch],
        recipe.toolchain.cuda,
        recipe.toolchain.torch,
        package.requires,
        [local_version(recipe, each) for each in _named(recipe, package)],
    )
    return key_of(parts)[:8]


def _named(recipe: Recipe, package: Package) -> list[Package]:
    """The packages that its wheel names, but for its source, whose version it carries anyway."""
    names = [name for name in NAMED.get(package.name, ()) if name != package.source]
    return [each for each in recipe.packages if each.name in names]


def _segments(name: str) -> str:
    """The name as PEP 440 would print it, so that nothing rewrites it later: `My_Recipe-07` → `my.recipe.7`."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    if not words:
        raise RecipeError(
            f"the recipe's name {name!r} has nothing that a version can carry",
            expected="letters and digits",
            remedy="rename the recipe's file",
        )
    return ".".join(str(int(word)) if word.isdigit() else word for word in words)
