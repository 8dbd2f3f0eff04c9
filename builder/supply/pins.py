"""A recipe's pins as materials: what a wheel of it must have come from, and may not have come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from builder.model import LockedFile, Package, Recipe
from builder.store import key_of, sha256_of
from builder.supply.materials import (
    Material,
    file_material,
    patch_material,
    repository_material,
    source_materials,
    vendored_material,
)


def recipe_materials(recipe: Recipe, package: Package, root: Path) -> tuple[Material, ...]:
    """Everything that the recipe pins for one package, its toolchain lock included.

    What it offers as alternatives (externals from git, or parts of a prebuilt wheel) is all there.
    Raises RecipeError for a lock that cannot be read.
    """
    from builder.recipe import locked

    return (
        lock_material(recipe, root),
        *_source(package),
        *(patch_material(name, digest) for name, digest in zip(package.patches, package.patch_digests, strict=True)),
        *(patch_material(f"pr-{each.pr}.patch", each.sha256) for each in package.contains if each.sha256),
        *_vendored(recipe, package),
        *_externals(package),
        *_prebuilt(package),
        *_tools(locked(recipe, root)),
    )


def asked(recipe: Recipe, package: Package) -> str:
    """A digest of what the recipe says that reaches this wheel's bytes: its expectations do not."""
    wanted = asdict(replace(package, superseded=()))
    return key_of([recipe.name, recipe.revision, asdict(recipe.target), asdict(recipe.toolchain), wanted])


def lock_material(recipe: Recipe, root: Path) -> Material:
    """The recipe's toolchain lock, by the digest of its bytes. Raises RecipeError when there is none."""
    from builder.recipe import locked

    name = recipe.toolchain.lock
    locked(recipe, root)
    return Material("lock", name, "", f"recipes/{name}", (("sha256", sha256_of(root / "recipes" / name)),))


def _source(package: Package) -> tuple[Material, ...]:
    return source_materials(package.source or package.name, package.version, pins_of(package))


def pins_of(package: Package) -> dict[str, str]:
    """A package's upstream pins, by the names that the build record gives them."""
    return {
        "git": package.git,
        "upstream_commit": package.commit,
        "sdist": package.sdist,
        "sdist_sha256": package.sha256,
        "tree": package.tree,
        "result_tree": package.result_tree,
    }


def bundled(recipe: Recipe, package: Package) -> tuple[tuple[str, str, str], ...]:
    """Libraries whose code reaches the wheel: the package that bundles each, its folder there and its version.

    vLLM is built with the CUTLASS that FlashInfer's source bundles.
    """
    own = recipe.package(package.source or package.name)
    found = [(own.name, folder, version) for folder, version in own.vendored]
    if package.name == "vllm":
        holders = [each for each in recipe.packages if each.name == "flashinfer-python"]
        found += [(p.name, folder, version) for p in holders for folder, version in p.vendored if "cutlass" in folder]
    return tuple(found)


def _vendored(recipe: Recipe, package: Package) -> Iterator[Material]:
    for _, folder, version in bundled(recipe, package):
        yield vendored_material(folder.rpartition("/")[2], version)


def _externals(package: Package) -> Iterator[Material]:
    for each in package.externals:
        commit = {"gitCommit": each.commit} if each.commit else {}
        yield repository_material("external", each.name, each.git, each.commit or each.tag, {})
        yield repository_material("part", each.name, each.git, each.commit or each.tag, commit)


def _prebuilt(package: Package) -> Iterator[Material]:
    if package.prebuilt is not None:
        wheel = package.prebuilt
        yield file_material("prebuilt", package.name, package.version, wheel.wheel, wheel.sha256)


def _tools(lock: Sequence[LockedFile]) -> Iterator[Material]:
    for file in lock:
        yield file_material("tool", file.project, file.version, file.filename, file.sha256)
