"""Where the dynamic loader of an image looks, and what must not be found there.

On a DGX Spark the driver's libcuda.so.1 is mounted in at start. A stub of it, or the compat package's
copy, that the loader meets first makes every CUDA call fail, or run on another driver than the host's.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Final

from builder.inspect.oci import ContainerFacts, Root
from builder.model import Finding

_TRIPLETS: Final = {"arm64": "aarch64-linux-gnu", "amd64": "x86_64-linux-gnu"}
_LIBCUDA = re.compile(r"libcuda\.so(?:\.\d+)*")
_COMPAT = re.compile(r"(?:^|/)compat(?:/|$)")
_CACHED = re.compile(rb"\0(/[^\0]*/libcuda\.so[^\0]*)\0")
_DEEPEST: Final = 8


def search_path(image: ContainerFacts) -> dict[str, str]:
    """Each folder where libraries are looked for → who says so, the first one first; paths as written."""
    triplet = _TRIPLETS.get(image.architecture, "")
    found: dict[str, str] = {}
    for folder in image.env.get("LD_LIBRARY_PATH", "").split(":"):
        if folder:
            found.setdefault(folder, "ENV LD_LIBRARY_PATH")
    for folder, file in _configured(image.root, "etc/ld.so.conf", 0):
        found.setdefault(folder, f"/{file}")
    defaults = [f"/lib/{triplet}", f"/usr/lib/{triplet}"] if triplet else []
    for folder in (*defaults, "/lib", "/usr/lib", "/lib64", "/usr/lib64"):
        found.setdefault(folder, "the loader's defaults")
    return found


def _configured(root: Root, file: str, depth: int) -> Iterator[tuple[str, str]]:
    """Folders of ld.so.conf and the files that it includes."""
    for raw in (root.text(file) or "").splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("include ") and depth < _DEEPEST:
            pattern = line.removeprefix("include ").strip()
            pattern = pattern if pattern.startswith("/") else f"{file.rpartition('/')[0]}/{pattern}"
            folder = pattern.strip("/").rpartition("/")[0]
            for path in sorted(root.below(folder)):
                if fnmatch.fnmatchcase(path, f"{root.real(folder)}/{pattern.rpartition('/')[2]}"):
                    yield from _configured(root, path, depth + 1)
        elif line.startswith("/"):
            yield line, file


def loader_findings(image: ContainerFacts) -> Iterator[Finding]:
    """A libcuda, or a compat folder, where the loader looks; and anything that is loaded before all else."""
    seen: set[str] = set()
    for folder, said in search_path(image).items():
        if _COMPAT.search(folder) or _COMPAT.search(image.root.real(folder)):
            yield _compat(folder, said)
        for path in _libcudas(image.root, folder):
            if path not in seen:
                seen.add(path)
                yield _stub(path, f"{folder} ({said})")
    for path in _cached(image.root):
        if path.removeprefix("/") not in seen:
            yield _stub(path.removeprefix("/"), "etc/ld.so.cache")
    yield from _preloads(image)


def _libcudas(root: Root, folder: str) -> Iterator[str]:
    """Libcuda in the folder itself, or in one of its glibc-hwcaps folders."""
    real = root.real(folder)
    for path in root.below(folder):
        above, _, name = path.rpartition("/")
        if _LIBCUDA.fullmatch(name) and (above == real or above.startswith(f"{real}/glibc-hwcaps/")):
            yield path


def _cached(root: Root) -> Iterator[str]:
    cache = root.texts.get("etc/ld.so.cache", b"")
    yield from sorted({match.decode(errors="replace") for match in _CACHED.findall(cache)})


def _preloads(image: ContainerFacts) -> Iterator[Finding]:
    listed = (image.root.text("etc/ld.so.preload") or "").strip()
    for where, value in (("ENV LD_PRELOAD", image.env.get("LD_PRELOAD", "")), ("etc/ld.so.preload", listed)):
        if value:
            message = f"every program of the image loads {value} before all else"
            yield Finding("image-preload", where, message, "take it out of the base or the Containerfile")


def _stub(path: str, said: str) -> Finding:
    return Finding(
        "image-libcuda",
        f"/{path}",
        f"a libcuda lies where the loader looks, by {said}: it hides the driver that is mounted in at start",
        "remove it in the layer that brings it: a stub is for linking alone, and the real one comes from the host",
    )


def _compat(folder: str, said: str) -> Finding:
    return Finding(
        "image-compat",
        folder,
        f"the loader looks into a cuda-compat folder, by {said}: its driver library is not the host's",
        "take the folder off the path; compat libraries are for data-centre drivers, and a DGX Spark has its own",
    )
