"""A CUDA_HOME put together from package-index wheels, as links into the store.

nvcc finds its root from the folder it is started in, so `bin/` is a real folder of links; the
linker wants `libX.so` beside each `libX.so.N`; CMake looks for `targets/<triple>/`. Planning is
pure: a mapping from the link's place to what it points at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_VERSIONED = re.compile(r"(lib[^/]+\.so)\.[\d.]+")
_TRIPLES = {"x86_64": ("x86_64-linux",), "aarch64": ("sbsa-linux", "aarch64-linux")}


def plan_overlay(host: Path, target: Path, machine: str) -> dict[str, Path]:
    """Links of a CUDA_HOME: tools from `host`, headers and libraries from `target`.

    Both are `nvidia/cu13` folders of unpacked wheels; `machine` is the target's.
    """
    links = _programs(host)
    for folder in (host / "include", target / "include"):
        links |= {f"include/{item.name}": item for item in sorted(folder.iterdir())}
    for library in sorted((target / "lib").iterdir()):
        links[f"lib64/{library.name}"] = library
        versioned = _VERSIONED.fullmatch(library.name)
        if versioned:
            links[f"lib64/{versioned[1]}"] = library
    links["lib"] = Path("lib64")
    for triple in _TRIPLES[machine]:
        links[f"targets/{triple}/include"] = Path("../../include")
        links[f"targets/{triple}/lib"] = Path("../../lib64")
    return links


def plan_mirror(cuda: Path) -> dict[str, Path]:
    """Links of a CUDA_HOME that is another, installed one, with folders of its own for the programs."""
    apart = {"bin", "nvvm"}
    return _programs(cuda) | {item.name: item for item in sorted(cuda.iterdir()) if item.name not in apart}


def _programs(cuda: Path) -> dict[str, Path]:
    """Every program by a link of its own, so that single ones can be replaced."""
    folders = ("bin", "nvvm", "nvvm/bin")
    items = {f"{folder}/{item.name}": item for folder in folders for item in sorted((cuda / folder).iterdir())}
    return {name: item for name, item in items.items() if name not in folders}


def make_overlay(links: Mapping[str, Path], folder: Path) -> None:
    """Make the folder hold exactly these links, touching only those that differ.

    A build that runs meanwhile never misses a link: each is replaced by a rename.
    """
    wanted = {name: str(target) for name, target in links.items()}
    existing = _existing(folder)
    for name in existing.keys() - wanted.keys():
        (folder / name).unlink()
    for name, target in wanted.items():
        if existing.get(name) != target:
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            new = place.with_name(f".{place.name}.{os.getpid()}")
            new.symlink_to(target)
            new.replace(place)


def _existing(folder: Path) -> dict[str, str]:
    links = {}
    for parent, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(parent, name)
            if path.is_symlink():
                links[str(path.relative_to(folder))] = str(path.readlink())
    return links
