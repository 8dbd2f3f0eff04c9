"""The build record inside dist-info: everything that a wheel's bytes came from, and no clock."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from builder import __version__
from builder.compile.job import Job
from builder.git import Objects
from builder.model import Package, PatchedTree, Recipe
from builder.supply import asked, bundled, pins_of

VERSION = 2
"""2: with what the SBOM needs (libraries that upstream bundles, the toolchain's files)."""


def build_record(job: Job, trees: Mapping[str, PatchedTree]) -> dict[str, object]:
    """The record as JSON-able values; `trees` are the recipe's, by package."""
    recipe, package = job.recipe, job.package
    tree = trees[package.source or package.name]
    return {
        "version": VERSION,
        "builder": __version__,
        "recipe": {"name": recipe.name, "revision": recipe.revision, "digest": asked(recipe, package)},
        "package": _package(job, tree),
        "patches": [asdict(patch) for patch in tree.applied],
        "vendored": list(vendored(recipe, package, trees)),
        "externals": list(_externals(job)),
        "prebuilt": _prebuilt(job),
        "target": {"platform": recipe.target.platform, "cuda_arch": [str(arch) for arch in recipe.target.cuda_arch]},
        "toolchain": _toolchain(job),
    }


def vendored(recipe: Recipe, package: Package, trees: Mapping[str, PatchedTree]) -> Iterator[dict[str, str]]:
    """Bundled libraries whose code reaches the wheel, each with the tree that was compiled."""
    for holder, folder, version in bundled(recipe, package):
        tree = Objects(trees[holder].git_dir).subtree(trees[holder].tree, folder)
        name = folder.rpartition("/")[2]
        yield {"name": name, "version": version, "source": holder, "path": folder, "tree": tree}


def _package(job: Job, tree: PatchedTree) -> dict[str, object]:
    """The package's pins; the sdist's only where its tree was built, for a commit's tree may be another."""
    package = job.package
    pins = pins_of(package) | {"tree": tree.base_tree, "result_tree": tree.tree}
    if tree.base_tree != package.tree:
        pins |= {"sdist": "", "sdist_sha256": ""}
    return {
        "name": package.name,
        "version": job.version,
        "source": package.source or package.name,
        "upstream_version": package.version,
        "components": list(package.components),
        **pins,
    }


def _externals(job: Job) -> Iterator[dict[str, object]]:
    for each in job.externals:
        pin = each.external
        yield {"name": pin.name, "git": pin.git, "revision": pin.commit or pin.tag, "tree": each.tree}


def _prebuilt(job: Job) -> dict[str, object] | None:
    """The official wheel that parts are taken from, and the repositories that upstream made them from."""
    if job.prebuilt is None:
        return None
    parts = [{"name": e.name, "git": e.git, "commit": e.commit, "tag": e.tag} for e in job.package.externals]
    return {**asdict(job.prebuilt), "parts": parts, "taken": {}}


def _toolchain(job: Job) -> dict[str, object]:
    toolchain = job.toolchain
    return {
        "kind": toolchain.kind,
        "cuda": toolchain.cuda,
        "torch": toolchain.torch,
        "key": toolchain.key,
        "compiler": f"{toolchain.compilers.cxx.name} {toolchain.compilers.version}",
        "machine": platform.machine(),
        "files": [_file(file.project, file.version, file.filename, file.sha256) for file in toolchain.files],
    }


def _file(project: str, version: str, filename: str, sha256: str) -> dict[str, str]:
    return {"project": project, "version": version, "filename": filename, "sha256": sha256}
