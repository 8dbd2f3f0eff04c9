"""Small trees in a repository of their own, and patches as a recipe lists them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from builder.context import Context
from builder.git import EMPTY_TREE, Entry, Objects
from builder.model import Package, SourceTree
from builder.patches.view import Blobs, View

Files = Mapping[str, bytes]


class GitDiff(Protocol):
    """Makes the patch that git itself writes between two sets of files."""

    def __call__(self, before: Files, after: Files, *options: str) -> bytes: ...


class Bench:
    """A package's repository, a root folder with patches/, and the wish of a recipe."""

    def __init__(self, context: Context, root: Path) -> None:
        self.context = context
        self.root = root
        self.git_dir = context.store.git_dir("vllm")
        self.objects = Objects(self.git_dir)
        self.blobs = Blobs(self.objects)

    def tree(self, files: Files, modes: Mapping[str, int] | None = None) -> str:
        entries = {
            path: Entry((modes or {}).get(path, 0o100644), self.objects.write(data)) for path, data in files.items()
        }
        return self.objects.edit(EMPTY_TREE, entries)

    def view(self, files: Files) -> View:
        return View(self.blobs, self.tree(files))

    def source(self, tree: str) -> SourceTree:
        return SourceTree("vllm", self.git_dir, "b" * 40, tree, "test")

    def package(self, *patches: str, tree: str = "", result: str = "0" * 40) -> Package:
        return Package(
            name="vllm",
            version="0.20.0",
            commit="b" * 40,
            git="",
            sdist="",
            sha256="",
            tree=tree,
            result_tree=result,
            patches=patches,
        )

    def save(self, name: str, data: bytes) -> str:
        path = self.root / "patches" / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return name

    def read(self, tree: str) -> dict[str, bytes]:
        return {path: self.objects.read(entry.oid) for path, entry in self.objects.files(tree).items()}
