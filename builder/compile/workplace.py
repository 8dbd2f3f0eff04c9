"""Canonical folders of one package: its source checked out, its build kept between runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.compile.place import canonical_root, holding
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.git import Objects
from builder.model import ExternalTree, PatchedTree
from builder.store import atomic_write


@contextmanager
def workplace(tree: PatchedTree, toolchain: Toolchain, context: Context) -> Iterator[Path]:
    """The patched tree checked out at its canonical path, held against other builds meanwhile.

    Only files that differ are written, so ninja rebuilds what a change reaches and no more. A
    build by another toolchain, or by one laid out in another way, is forgotten: CMake cannot change compilers in
    a build folder, and ninja takes a link to an older file for no change.
    """
    name = tree.package
    folder = canonical_root() / "src" / name
    with holding(f"build-{name}", context):
        forget_other_toolchain(folder, toolchain)
        changed = Objects(tree.git_dir).checkout(tree.tree, folder)
        context.report.note(f"{name}: {changed} source files written at {folder}")
        yield folder


def external_folder(external: ExternalTree, context: Context) -> str:
    """An external's tree at its canonical path: the folder that upstream's variable must name."""
    folder = checked_out(external.external.name, Objects(external.git_dir), external.tree, context)
    return str(folder / external.external.subfolder)


def checked_out(name: str, objects: Objects, tree: str, context: Context) -> Path:
    """A tree that builds only read, at its canonical path."""
    folder = canonical_root() / "src" / name
    with holding(f"build-{name}", context):
        folder.mkdir(parents=True, exist_ok=True)
        objects.checkout(tree, folder)
    return folder


def forget_other_toolchain(folder: Path, toolchain: Toolchain) -> None:
    """Empty a build folder unless this very toolchain, laid out as it is, was the last to build there."""
    mark, ours = folder.parent / f"{folder.name}.toolchain", f"{toolchain.root}\n{toolchain.layout}\n"
    if mark.is_file() and mark.read_text(encoding="utf-8") == ours:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    atomic_write(mark, ours.encode())
