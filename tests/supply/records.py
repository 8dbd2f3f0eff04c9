"""Build records as a build writes them, made from the recipes here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builder.compile.record import VERSION
from builder.model import External, Package, Recipe
from builder.patches.load import Patch, load_series
from builder.recipe import load, local_version, locked
from builder.supply import asked, bundled, pins_of

ROOT = Path(__file__).parents[2]
Change = Callable[[dict[str, Any]], None]


def recipe() -> Recipe:
    return load("aeon7", ROOT)


def package(name: str = "vllm") -> Package:
    return recipe().package(name)


def record(name: str = "vllm", *, externals: bool = False) -> dict[str, Any]:
    """The record of an aeon7 wheel, parts taken from the official one or (`externals`) fetched from git."""
    whole = recipe()
    package = whole.package(name)
    value = {
        "version": VERSION,
        "builder": "0.1.0",
        "recipe": {"name": whole.name, "revision": whole.revision, "digest": asked(whole, package)},
        "package": {
            "name": name,
            "version": local_version(whole, package),
            "source": package.source or name,
            "upstream_version": package.version,
            "components": list(package.components),
            **pins_of(package),
        },
        "patches": [_patch(patch) for patch in load_series(package, ROOT)],
        "vendored": [
            {"name": folder.rpartition("/")[2], "version": version, "source": holder, "path": folder, "tree": "c" * 40}
            for holder, folder, version in bundled(whole, package)
        ],
        "externals": [_external(each) for each in package.externals] if externals else [],
        "prebuilt": None if externals else _prebuilt(package),
        "target": {"platform": whole.target.platform, "cuda_arch": [str(arch) for arch in whole.target.cuda_arch]},
        "toolchain": {
            "kind": "index",
            "cuda": whole.toolchain.cuda,
            "torch": whole.toolchain.torch,
            "key": "k" * 64,
            "compiler": "aarch64-linux-gnu-g++ 12.2.0",
            "machine": "x86_64",
            "files": [
                {"project": f.project, "version": f.version, "filename": f.filename, "sha256": f.sha256}
                for f in locked(whole, ROOT)
                if {"host-x86_64", "target-aarch64"} & set(f.roles)
            ],
        },
    }
    read: dict[str, Any] = json.loads(json.dumps(value))
    return read


def _patch(patch: Patch) -> dict[str, Any]:
    header = patch.header
    said = {"description": header.description, "origin": header.origin, "bugs": header.bugs}
    return {"file": patch.file, "sha256": patch.sha256, "state": "clean", "offset": 0, **said}


def _external(each: External) -> dict[str, Any]:
    return {"name": each.name, "git": each.git, "revision": each.commit or each.tag, "tree": "e" * 40}


def _prebuilt(package: Package) -> dict[str, Any] | None:
    if package.prebuilt is None:
        return None
    parts = [{"name": e.name, "git": e.git, "commit": e.commit, "tag": e.tag} for e in package.externals]
    taken = {"vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so": "f" * 64, "vllm/third_party/triton_kernels/a.py": "0" * 64}
    wheel = package.prebuilt
    return {"wheel": wheel.wheel, "sha256": wheel.sha256, "reason": wheel.reason, "parts": parts, "taken": taken}
