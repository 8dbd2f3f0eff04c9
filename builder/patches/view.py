"""A tree with changes on top that are not written yet: what a series is judged on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pygit2

from builder.git import Entry, Objects
from builder.patches.text import Text

_FULL = 40
_KEPT_TEXTS = 48


@dataclass(frozen=True, slots=True)
class File:
    """A file of a view: git mode, blob id, bytes."""

    mode: int
    oid: str
    data: bytes


class Blobs:
    """Reads blobs of one repository and keeps the last few as lines; nothing is ever written."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._texts: dict[str, Text] = {}

    def text(self, file: File) -> Text:
        """The lines of a file."""
        return self._text(file.oid, file.data)

    def read(self, oid: str) -> bytes:
        """The bytes of a blob."""
        return self._text(oid).data

    def find(self, oid: str) -> Text | None:
        """The lines of a blob by its full id, None when it is not in the repository."""
        try:
            return self._text(oid) if len(oid) == _FULL and self.objects.has(oid) else None
        except pygit2.InvalidSpecError:  # the id of a tree or commit: no file that a patch was made on
            return None

    def _text(self, oid: str, data: bytes | None = None) -> Text:
        text = self._texts.pop(oid, None) or Text(self.objects.read(oid) if data is None else data)
        self._texts[oid] = text
        if len(self._texts) > _KEPT_TEXTS:
            del self._texts[next(iter(self._texts))]
        return text


class View:
    """One tree plus a set of files put over it. Copies are cheap; the repository is not touched."""

    def __init__(self, blobs: Blobs, tree: str, over: Mapping[str, File | None] | None = None) -> None:
        self.blobs = blobs
        self.tree = tree
        self._over: dict[str, File | None] = dict(over or {})

    def copy(self) -> View:
        """A view that can change without this one changing."""
        return View(self.blobs, self.tree, self._over)

    def get(self, path: str) -> File | None:
        """The file at a path; None when nothing or a folder is there."""
        if path in self._over:
            return self._over[path]
        entry = self.blobs.objects.entry(self.tree, path)
        if entry is None or entry.mode == 0o160000:
            return None
        return File(entry.mode, entry.oid, self.blobs.read(entry.oid))

    def entry(self, path: str) -> Entry | None:
        """Mode and blob id at a path, without reading the blob."""
        if path in self._over:
            over = self._over[path]
            return None if over is None else Entry(over.mode, over.oid)
        return self.blobs.objects.entry(self.tree, path)

    def read(self, path: str) -> bytes | None:
        """The bytes at a path, or None."""
        file = self.get(path)
        return None if file is None else file.data

    def paths(self) -> list[str]:
        """Every file, by path."""
        below = self.blobs.objects.files(self.tree)
        return sorted({*(path for path in below if path not in self._over), *(p for p, f in self._over.items() if f)})

    def blocked(self, path: str) -> str:
        """The path that stands in the way of creating this file ("" when free): a file or folder."""
        if self.entry(path) is not None or self._is_folder(path):
            return path
        parts = path.split("/")
        parents = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return next((parent for parent in parents if self.entry(parent) is not None), "")

    def put(self, path: str, data: bytes, mode: int) -> None:
        """Set a file."""
        self._over[path] = File(mode, str(pygit2.hash(data)), data)

    def set(self, path: str, file: File | None) -> None:
        """Set or remove a file whose blob id is known."""
        self._over[path] = file

    def remove(self, path: str) -> None:
        """Take a file away."""
        self._over[path] = None

    def changes(self) -> dict[str, File | None]:
        """What differs from the tree below, by path."""
        objects = self.blobs.objects
        found = {}
        for path, file in sorted(self._over.items()):
            entry = objects.entry(self.tree, path)
            if (None if file is None else Entry(file.mode, file.oid)) != entry:
                found[path] = file
        return found

    def _is_folder(self, path: str) -> bool:
        prefix = f"{path}/"
        if any(file is not None and name.startswith(prefix) for name, file in self._over.items()):
            return True
        under = self.blobs.objects.under(self.tree, path)
        return any(self._over.get(f"{prefix}{name}", True) is not None for name in under)


def write_tree(objects: Objects, view: View) -> str:
    """Write a view's changes into the repository; the id of the resulting tree."""
    changes = {
        path: None if file is None else Entry(file.mode, objects.write(file.data))
        for path, file in view.changes().items()
    }
    return objects.edit(view.tree, changes) if changes else view.tree
