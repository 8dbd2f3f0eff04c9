"""Whether a build has anything to do, answered in milliseconds from the checkout's own bytes.

The stages resume by content; this asks the question before any of them is even imported.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.errors import BuilderError, ToolchainError
from builder.store import Store, key_of, sha256_of

_SETTINGS = ("SPARK_WHEELS_ROOT", "CUDA_HOME")
_COMPILERS = ("g++", "aarch64-linux-gnu-g++", "x86_64-linux-gnu-g++")


def fingerprint(root: Path, options: Mapping[str, str]) -> str:
    """A key of all that decides a build's result.

    Our code, recipes, patches, options, Python, the machine's compilers, an installed CUDA.
    """
    folders = (Path(__file__).parent, root / "recipes", root / "patches")
    paths = [*(path for folder in folders for path in _files(folder)), *_recipe_by_path(options), *_compilers()]
    files = {str(path): sha256_of(path) for path in paths}
    settings = {name: os.environ.get(name, "") for name in _SETTINGS}
    return key_of([files, dict(options), settings, sys.version_info[:3], _cuda(options)])


def _recipe_by_path(options: Mapping[str, str]) -> Sequence[Path]:
    """A recipe that is named by its path, with all beside it that it may extend."""
    name = options.get("recipe", "")
    return sorted(Path(name).resolve().parent.glob("*.toml")) if "/" in name or name.endswith(".toml") else ()


def _compilers() -> Sequence[Path]:
    found = (shutil.which(name) for name in _COMPILERS)
    return sorted({Path(path).resolve() for path in found if path})


def _cuda(options: Mapping[str, str]) -> str:
    if options.get("toolchain") != "system":
        return ""
    from builder.compile.installed import digest_of, installed_cuda  # takes time that no other build should take

    try:
        return digest_of(installed_cuda())
    except ToolchainError:
        return ""


def earlier(store: Store, key: str) -> dict[str, Any] | None:
    """The summary of an earlier build with that key, if all that it made still stands.

    A record that is not of our making counts as absent, as a damaged one does.
    """
    document = store.record("build", key)
    try:
        return document if document is not None and _stands(document) else None
    except (KeyError, TypeError):
        return None


def _files(folder: Path) -> Sequence[Path]:
    found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts and path.is_file())
    return sorted(found)


def _stands(document: Mapping[str, Any]) -> bool:
    folder, wheels = Path(document["folder"]), document["wheels"]
    places = [(folder / wheel["file"], wheel["size"]) for wheel in wheels]
    waits = bool(document.get("held"))  # until somebody has brought all of them
    whole = all(path.is_file() and path.stat().st_size == size for path, size in places)
    return whole and waits is not _offered(document["index"], wheels)


def _offered(index: str, wheels: Sequence[Mapping[str, Any]]) -> bool:
    listed = "://" in index or Path(index, "simple", "index.html").is_file()
    return listed and all(_listed(index, wheel) for wheel in wheels)


def _listed(index: str, wheel: Mapping[str, Any]) -> bool:
    """Whether the index names the file with its digest. One that cannot be read or asked does not."""
    page = _page(index, f"simple/{_canonical(wheel['name'])}/index.json")
    try:
        files = {file["filename"]: file["hashes"]["sha256"] for file in json.loads(page)["files"]}
    except (ValueError, KeyError, TypeError):
        return False
    return bool(files.get(wheel["file"]) == wheel["sha256"])


def _canonical(name: str) -> str:
    """A project's name as PEP 503 writes it in addresses; `packaging` has this too, and takes longer to import."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _page(index: str, key: str) -> bytes:
    try:
        if "://" not in index:
            return Path(index, key).read_bytes()
        from builder.publish.s3 import ObjectShelf

        kept = ObjectShelf.open(index).read(key)
    except (OSError, BuilderError):
        return b""
    return kept.data if kept else b""
