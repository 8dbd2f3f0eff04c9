"""Where the dynamic loader of an image looks, and what must not be found there.

On a DGX Spark the driver's libcuda.so.1 is mounted in at start. A stub of it, or the compat package's
copy, that the loader meets first makes every CUDA call fail, or run on another driver than the host's.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Final

from builder.finding import Finding
from builder.inspect.oci import ContainerFacts, Root

_TRIPLETS: Final = {"arm64": "aarch64-linux-gnu", "amd64": "x86_64-linux-gnu"}
_LIBCUDA = re.compile(r"libcuda\.so(?:\.\d+)*")
_COMPAT = re.compile(r"(?:^|/)compat(?:/|$)")
_CACHED = re.compile(rb"\0(/[^\0]*/libcuda\.so[^\0]*)\0")
_DEEPEST: Final = 8
_BRINGS: Final = (
    *("GCONV_PATH", "LD_AUDIT", "LD_PRELOAD", "PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR"),
    *("PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS"),
)
"""Variables by which the loader or Python takes code from elsewhere."""


def search_path(image: ContainerFacts) -> dict[str, str]:
    """Each folder where libraries are looked for → who says so, the first one first; paths as written."""
    triplet = _TRIPLETS.get(image.architecture, "")
    found: dict[str, str] = {}
    for folder in re.split("[:;]", image.env.get("LD_LIBRARY_PATH", "")):
        if folder:
            found.setdefault(folder, "ENV LD_LIBRARY_PATH")
    for folder, file in _configured(image.root):
        found.setdefault(folder, f"/{file}")
    defaults = [f"/lib/{triplet}", f"/usr/lib/{triplet}"] if triplet else []
    for folder in (*defaults, "/lib", "/usr/lib", "/lib64", "/usr/lib64"):
        found.setdefault(folder, "the loader's defaults")
    return found


def _configured(root: Root) -> Iterator[tuple[str, str]]:
    """Folders of ld.so.conf and the files that it includes."""
    for said, words in _lines(root, "etc/ld.so.conf", 0):
        if words[0].startswith("/"):
            yield " ".join(words), said


def _lines(root: Root, file: str, depth: int) -> Iterator[tuple[str, list[str]]]:
    """Each file and the words of each of its lines, an included file's after the line that includes it."""
    for raw in (root.text(file) or "").splitlines():
        words = raw.partition("#")[0].split()
        if words:
            yield file, words
        if words[:1] == ["include"] and depth < _DEEPEST:
            for path in (path for pattern in words[1:] for path in _included(root, file, pattern)):
                yield from _lines(root, path, depth + 1)


def _unread(root: Root) -> Iterator[Finding]:
    """Files that the reader has not kept: what they add to the path is not known."""
    for file in ("etc/ld.so.conf", "etc/ld.so.cache"):
        if _is_unknown(root, file):
            message = "the loader reads it, and it is too large, or leads too far, to be read here"
            yield Finding("image-libcuda", f"/{file}", message, "make it a plain file of its own")
    for file, words in _lines(root, "etc/ld.so.conf", 0):
        patterns = words[1:] if words[0] == "include" else []
        for path in (path for pattern in patterns for path in _included(root, file, pattern)):
            if root.text(path) is None:
                message = f"/{file} includes it, and it is too large, or lies too far, to be read"
                yield Finding("image-libcuda", f"/{path}", message, "keep the loader's settings in /etc/ld.so.conf.d")


def _is_unknown(root: Root, file: str) -> bool:
    """True when something is there of which no text was kept, as at the end of a link."""
    return root.entry(file) is not None and root.text(file) is None


def _included(root: Root, file: str, pattern: str) -> Iterator[str]:
    """The files that a pattern names, which may be relative to the file that it stands in."""
    pattern = pattern if pattern.startswith("/") else f"{file.rpartition('/')[0]}/{pattern}"
    folder = pattern.strip("/").rpartition("/")[0]
    wanted = f"{root.real(folder)}/{pattern.rpartition('/')[2]}"
    return iter(sorted(path for path in root.below(folder) if fnmatch.fnmatchcase(path, wanted)))


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
    yield from _unread(image.root)
    yield from _preloads(image)


def _libcudas(root: Root, folder: str) -> Iterator[str]:
    """Libcuda in the folder itself, or in one of its glibc-hwcaps folders."""
    real = root.real(folder)
    for path in root.below(folder):
        above, _, name = path.rpartition("/")
        if _LIBCUDA.fullmatch(name) and (above == real or above.startswith(f"{real}/glibc-hwcaps/")):
            yield path


def _cached(root: Root) -> Iterator[str]:
    cache = root.texts.get(root.real("etc/ld.so.cache"), b"")
    yield from sorted({match.decode(errors="replace") for match in _CACHED.findall(cache)})


def _preloads(image: ContainerFacts) -> Iterator[Finding]:
    listed = (image.root.text("etc/ld.so.preload") or "").strip()
    if _is_unknown(image.root, "etc/ld.so.preload"):
        listed = "a file that was not read"
    named = [(f"ENV {name}", image.env.get(name, "")) for name in _BRINGS]
    for where, value in (*named, ("etc/ld.so.preload", listed)):
        if value:
            message = f"programs of the image load what {value} names, before or instead of what is installed"
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
