"""Reads the patch files of a series, in the recipe's order.

A recipe names a patch by its path under patches/ (`vllm/0001-slug.patch`); a bare file name is
looked for in the package's own folder there.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from pathlib import Path

from builder.errors import PatchError
from builder.model import Package
from builder.patches.diff import Diff, Fault
from builder.patches.header import Header, read_header
from builder.patches.parse import MAX_BYTES, parse, too_large


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch file, read: its name in the recipe, digest, header, diff, and the bytes themselves."""

    file: str
    sha256: str
    header: Header
    diff: Diff
    data: bytes = b""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Faults of the header and of the diff, by line."""
        return tuple(sorted({*self.header.faults, *self.diff.faults}))

    @property
    def diff_bytes(self) -> bytes:
        """The file without what stands above its first diff."""
        return self.data[len(b"".join(self.diff.preamble)) :]

    @property
    def diff_sha256(self) -> str:
        """The digest of what the patch does, whatever its header says."""
        return hashlib.sha256(self.diff_bytes).hexdigest()


def folder_of(package: str) -> str:
    """The folder under patches/ for a package: `flashinfer` for `flashinfer-python`, `vllm` for `vllm`."""
    return package.partition("-")[0]


def read_patch(file: str, data: bytes) -> Patch:
    """Read a patch's bytes; never raises, faults are in the result."""
    diff = parse(data)
    header = read_header(diff.preamble)
    if not diff.files and not diff.faults and not header.superseded_when:
        diff = Diff(diff.preamble, (), (Fault(1, "no diff in this file", "empty"),))
    return Patch(file, hashlib.sha256(data).hexdigest(), header, diff, data)


def load_series(package: Package, root: Path) -> tuple[Patch, ...]:
    """Every patch that the recipe lists for the package, in order.

    Raises PatchError for a file that is missing (all of them at once) or listed twice. A file
    over the size limit is not read; that is a fault of the patch.
    """
    folder = root / "patches"
    missing = [name for name in package.patches if not path_of(package, root, name).is_file()]
    if missing:
        raise PatchError(
            f"{package.name}: {len(missing)} of {len(package.patches)} patches are missing: {', '.join(missing)}",
            where=str(folder),
            expected=_near(missing[0], folder),
            remedy="add the file, or take its name out of the recipe's patches",
        )
    twice = sorted({name for name in package.patches if package.patches.count(name) > 1})
    if twice:
        raise PatchError(
            f"{package.name}: listed twice: {', '.join(twice)}",
            where="patches of the recipe",
            remedy="list each patch once",
        )
    return tuple(_load(path_of(package, root, name), name) for name in package.patches)


def unlisted(package: Package, root: Path) -> tuple[str, ...]:
    """Patch files in the package's folder that the recipe does not list."""
    folder = folder_of(package.name)
    listed = {path_of(package, root, name) for name in package.patches}
    there = sorted((root / "patches" / folder).glob("*.patch"))
    return tuple(f"{folder}/{path.name}" for path in there if path not in listed)


def path_of(package: Package, root: Path, name: str) -> Path:
    """Where a patch of the recipe is; raises PatchError for a name that leaves patches/."""
    parts = name.split("/") if "/" in name else [folder_of(package.name), name]
    if name.startswith("/") or {"", ".", ".."} & set(parts):
        raise PatchError(
            f"{name!r} is no path under patches/",
            where="patches of the recipe",
            expected="a name such as vllm/0001-slug.patch",
            remedy=f"give the name of a file in {root / 'patches'}",
        )
    return root.joinpath("patches", *parts)


def _load(path: Path, name: str) -> Patch:
    size = path.stat().st_size
    if size <= MAX_BYTES:
        return read_patch(name, path.read_bytes())
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Patch(name, digest, read_header(()), Diff((), (), (Fault(1, too_large(size), "size"),)))


def _near(name: str, folder: Path) -> str:
    here = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*.patch"))
    near = difflib.get_close_matches(name, [*here, *(path.rpartition("/")[2] for path in here)], 1)
    if near:
        return f"{name}; did you mean {near[0]}?"
    return f"{name}; patches/ has {', '.join(here) or 'none'}"
