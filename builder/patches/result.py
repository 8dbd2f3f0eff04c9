"""The tree that a series leads to, told without writing it, against the recipe's `result_tree`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builder.errors import PatchError
from builder.git import Entry, Objects
from builder.model import Package, SourceTree
from builder.patches.pulls import prove
from builder.patches.step import Step
from builder.patches.view import Blobs, View

_FOLDER = b"40000"


@dataclass(frozen=True, slots=True)
class Result:
    """Tree ids: what the recipe expects and what the series gives."""

    package: str
    expected: str
    found: str

    @property
    def matches(self) -> bool:
        """True when a build would take it."""
        return self.expected == self.found

    @property
    def message(self) -> str:
        """What is wrong; "" when nothing is."""
        if self.matches:
            return ""
        unset = not self.expected.strip("0")
        return f"{self.package}: the patched tree is " + (
            "not pinned yet" if unset else "another than the recipe's result_tree"
        )

    @property
    def remedy(self) -> str:
        """The next step; "" when there is none."""
        return "" if self.matches else f'review the series, then set result_tree = "{self.found}" in the recipe'


def result_of(package: Package, source: SourceTree, steps: Sequence[Step]) -> Result | None:
    """What the judged series leads to; None where a patch fails, or a required pull request would be brought first."""
    if not all(step.verdict.state.good for step in steps) or _brings(package, source):
        return None
    view = steps[-1].after if steps else View(Blobs(Objects(source.git_dir)), source.tree)
    return Result(package.name, package.result_tree, tree_id(view))


def _brings(package: Package, source: SourceTree) -> bool:
    try:
        return any(pull.patch is not None for pull in prove(package, source))
    except PatchError:
        return True


def tree_id(view: View) -> str:
    """The id that git gives a view's files. Own code: libgit2 names a tree only by writing it."""
    changes = view.changes()
    if not changes:
        return view.tree
    files: dict[str, Entry] = dict(view.blobs.objects.files(view.tree))
    for path, file in changes.items():
        if file is None:
            files.pop(path, None)
        else:
            files[path] = Entry(file.mode, file.oid)
    return _folder(files).hex()


def _folder(files: Mapping[str, Entry]) -> bytes:
    inner: dict[str, dict[str, Entry]] = {}
    rows: list[tuple[bytes, bytes]] = []
    for path, entry in files.items():
        name, _, rest = path.partition("/")
        if rest:
            inner.setdefault(name, {})[rest] = entry
        else:
            rows.append((_named(name), _row(b"%o" % entry.mode, name, bytes.fromhex(entry.oid))))
    rows += [(_named(name) + b"/", _row(_FOLDER, name, _folder(below))) for name, below in inner.items()]
    body = b"".join(row for _, row in sorted(rows))
    return hashlib.sha1(b"tree %d\0%b" % (len(body), body), usedforsecurity=False).digest()


def _row(mode: bytes, name: str, oid: bytes) -> bytes:
    return b"%b %b\0%b" % (mode, _named(name), oid)


def _named(name: str) -> bytes:
    return name.encode(errors="surrogateescape")
