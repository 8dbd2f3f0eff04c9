"""The build record inside dist-info: everything that a wheel's bytes came from, and no clock."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict

from builder import __version__
from builder.compile.job import Job
from builder.model import Package, PatchedTree, Recipe
from builder.store import key_of


def build_record(job: Job, tree: PatchedTree) -> Mapping[str, object]:
    """The record as JSON-able values, `version` 1."""
    recipe, package = job.recipe, job.package
    return {
        "version": 1,
        "builder": __version__,
        "recipe": {"name": recipe.name, "revision": recipe.revision, "digest": asked(recipe, package)},
        "package": _package(job, tree),
        "patches": [asdict(patch) for patch in tree.applied],
        "externals": [{"name": e.external.name, "git": e.external.git, "tree": e.tree} for e in job.externals],
        "prebuilt": asdict(job.prebuilt) if job.prebuilt else None,
        "target": {"platform": recipe.target.platform, "cuda_arch": [str(arch) for arch in recipe.target.cuda_arch]},
        "toolchain": _toolchain(job),
    }


def asked(recipe: Recipe, package: Package) -> str:
    """A digest of what the recipe says that reaches this wheel's bytes: its expectations do not."""
    return key_of([recipe.name, recipe.revision, asdict(recipe.target), asdict(recipe.toolchain), asdict(package)])


def _package(job: Job, tree: PatchedTree) -> dict[str, object]:
    return {
        "name": job.package.name,
        "version": job.version,
        "upstream_commit": job.package.commit,
        "sdist_sha256": job.package.sha256,
        "tree": tree.base_tree,
        "result_tree": tree.tree,
        "components": list(job.package.components),
    }


def _toolchain(job: Job) -> dict[str, object]:
    toolchain = job.toolchain
    return {
        "kind": toolchain.kind,
        "cuda": toolchain.cuda,
        "torch": toolchain.torch,
        "key": toolchain.key,
        "compiler": f"{toolchain.compilers.cxx.name} {toolchain.compilers.version}",
        "machine": platform.machine(),
    }
