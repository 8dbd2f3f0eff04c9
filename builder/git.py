"""Git objects of one package: trees in, commits with fixed dates, checkouts out.

Objects are read and written in-process through libgit2; the `git` program is used only for
what moves over a network. Commits carry no clock and no user, so that the same series on the
same tree has the same commit id on any machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pygit2
from pygit2.enums import DiffOption, FileMode, MergeFileFlag, ObjectType

from builder.errors import SourceError
from builder.store import atomic_write

EPOCH: Final = 1_577_836_800
"""Seconds since 1970 of every commit and file that we date: 2020-01-01T00:00:00Z."""

EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_AUTHOR: Final = ("spark-wheels", "builder@spark-wheels.invalid")

pygit2.settings.owner_validation = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree: git mode (0o100644, 0o100755, 0o120000, 0o160000) and object id."""

    mode: int
    oid: str


@dataclass(frozen=True, slots=True)
class Merge:
    """A three-way merge: its tree, in which files in conflict hold both sides between markers.

    `gone` are conflicts where one side deleted the file: the tree has what the other side has.
    """

    tree: str
    conflicts: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


class Objects:
    """The bare repository of one package, made when first used."""

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        if not (git_dir / "HEAD").is_file():
            git_dir.parent.mkdir(parents=True, exist_ok=True)
            pygit2.init_repository(str(git_dir), bare=True)
        self._repo = pygit2.Repository(str(git_dir))

    def has(self, oid: str) -> bool:
        """True when the object (tree, commit or blob) is here."""
        return pygit2.Oid(hex=oid) in self._repo

    def tree_of(self, commit: str) -> str:
        """The tree id of a commit."""
        return str(self._repo[commit].peel(pygit2.Tree).id)

    def files(self, tree: str) -> dict[str, Entry]:
        """Every file of a tree by its path, sorted by path."""
        return dict(sorted(self._walk(self._tree(tree), "")))

    def entry(self, tree: str, path: str) -> Entry | None:
        """The file at a path, or None."""
        try:
            found = self._tree(tree)[path]
        except (KeyError, ValueError):
            return None
        return None if isinstance(found, pygit2.Tree) else Entry(int(found.filemode), str(found.id))

    def under(self, tree: str, folder: str) -> tuple[str, ...]:
        """Paths, relative to a folder of the tree, of every file in it; none when it is no folder."""
        try:
            found = self._tree(tree)[folder]
        except (KeyError, ValueError):
            return ()
        return tuple(path for path, _ in self._walk(found, "")) if isinstance(found, pygit2.Tree) else ()

    def subtree(self, tree: str, path: str) -> str:
        """The id of the folder at a path; raises SourceError."""
        try:
            return str(self._tree(tree)[path].peel(pygit2.Tree).id)
        except (KeyError, pygit2.InvalidSpecError) as error:
            raise SourceError(f"no folder {path} in tree {tree}", where=str(self.git_dir)) from error

    def read(self, oid: str) -> bytes:
        """The bytes of a blob."""
        return self._repo[pygit2.Oid(hex=oid)].peel(pygit2.Blob).data

    def write(self, data: bytes) -> str:
        """Keep bytes as a blob; its id."""
        return str(self._repo.create_blob(data))

    def edit(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """The id of `tree` with files set, or removed where the value is None."""
        index = pygit2.Index()
        index.read_tree(self._tree(tree))
        for path, entry in changes.items():
            if entry is None:
                index.remove(path)
            else:
                index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=entry.oid), FileMode(entry.mode)))
        return str(index.write_tree(self._repo))

    def is_ancestor(self, old: str, new: str) -> bool | None:
        """True when `old` is `new` or in its history; None when that history is not (wholly) here."""
        if new.startswith(old):
            return True
        try:
            parents = self._repo[new].peel(pygit2.Commit).parent_ids
            if old in self._repo:
                return bool(self._repo.descendant_of(new, old))
        except (KeyError, ValueError, pygit2.InvalidSpecError):
            return None
        whole = bool(parents) and not self._repo.is_shallow and all(parent in self._repo for parent in parents)
        return False if whole else None

    def merge(self, ancestor: str, ours: str, theirs: str) -> Merge:
        """Merge what changed from `ancestor` to `theirs` into `ours` (all tree ids), renames followed."""
        base, left, right = self._tree(ancestor), self._tree(ours), self._tree(theirs)
        index = self._repo.merge_trees(base, left, right)
        conflicts = _conflicts(index)
        if conflicts:
            flags = MergeFileFlag.ACCEPT_CONFLICTS | MergeFileFlag.STYLE_DIFF3
            index = self._repo.merge_trees(base, left, right, file_flags=flags)
        gone = _conflicts(index)
        for path, side in gone.items():
            del index.conflicts[path]
            index.add(pygit2.IndexEntry(path, side.id, side.mode))
        return Merge(str(index.write_tree(self._repo)), tuple(conflicts), tuple(gone))

    def diff(self, old: str, new: str) -> pygit2.Diff:
        """What changes from one tree to another, with three lines of context and renames found."""
        flags = DiffOption.INDENT_HEURISTIC | DiffOption.INCLUDE_TYPECHANGE
        found = self._tree(old).diff_to_tree(self._tree(new), flags=flags)
        found.find_similar()
        return found

    def import_folder(self, folder: Path) -> str:
        """The tree id of a folder's files, modes and links as git sees them; `.git` is left out."""
        builder = self._repo.TreeBuilder()
        for item in sorted(folder.iterdir()):
            if item.name == ".git":
                continue
            if item.is_symlink():
                builder.insert(item.name, self._repo.create_blob(os.fsencode(item.readlink())), FileMode.LINK)
            elif item.is_dir():
                child = self.import_folder(item)
                if child != EMPTY_TREE:
                    builder.insert(item.name, pygit2.Oid(hex=child), FileMode.TREE)
            else:
                mode = FileMode.BLOB_EXECUTABLE if item.stat().st_mode & 0o100 else FileMode.BLOB
                builder.insert(item.name, self._repo.create_blob_fromdisk(str(item)), mode)
        return str(builder.write())

    def commit(self, tree: str, message: str, parent: str = "") -> str:
        """A commit with the fixed author and date; its id depends on nothing else."""
        who = pygit2.Signature(*_AUTHOR, time=EPOCH, offset=0)
        parents = [pygit2.Oid(hex=parent)] if parent else []
        return str(self._repo.create_commit(None, who, who, message, pygit2.Oid(hex=tree), parents))

    def set_ref(self, name: str, commit: str) -> None:
        """Point a ref (`refs/spark-wheels/…`) at a commit, so that `git gc` keeps it."""
        self._repo.references.create(name, pygit2.Oid(hex=commit), force=True)

    def checkout(self, tree: str, folder: Path) -> int:
        """Make `folder` hold exactly `tree`'s files, touching only those that differ.

        Files that upstream's build generated stay; files of earlier checkouts that are gone from
        `tree` are removed, also when those checkouts were killed. A file that was changed since is
        written again. Every file that is written gets a new time, so that ninja sees it. Returns the
        number of files written or removed.
        """
        state = folder.parent / f"{folder.name}.tree"
        earlier = state.read_text().split() if state.is_file() and folder.is_dir() else []
        here = [known for known in earlier if known != tree and self._whole(known)]
        wanted = self.files(tree)
        atomic_write(state, "\n".join([*here, tree]).encode())
        changed = 0
        for path in {path for known in here for path in self.files(known)} - wanted.keys():
            changed += _remove(folder / path)
        for path, entry in wanted.items():
            if not self.stands(folder / path, entry):
                self._put(folder / path, entry)
                changed += 1
        atomic_write(state, tree.encode())
        return changed

    def _whole(self, tree: str) -> bool:
        """True when every folder of the tree is here; the store may have been emptied meanwhile."""
        try:
            return bool(self.files(tree)) or tree == EMPTY_TREE
        except (SourceError, KeyError, ValueError):
            return False

    def stands(self, path: Path, entry: Entry) -> bool:
        """True when the place already holds the entry: a killed checkout loses no times."""
        if entry.mode == FileMode.COMMIT:
            return path.is_dir() and not path.is_symlink()
        if entry.mode == FileMode.LINK:
            return path.is_symlink() and os.fsencode(path.readlink()) == self.read(entry.oid)
        if path.is_symlink() or not path.is_file():
            return False
        executable = bool(path.stat().st_mode & 0o100)
        return executable == (entry.mode == FileMode.BLOB_EXECUTABLE) and str(pygit2.hashfile(str(path))) == entry.oid

    def _put(self, path: Path, entry: Entry) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        if entry.mode == FileMode.COMMIT:
            path.mkdir()
        elif entry.mode == FileMode.LINK:
            path.symlink_to(os.fsdecode(self.read(entry.oid)))
        else:
            path.write_bytes(self.read(entry.oid))
            path.chmod(0o755 if entry.mode == FileMode.BLOB_EXECUTABLE else 0o644)

    def _tree(self, oid: str) -> pygit2.Tree:
        try:
            return self._repo[pygit2.Oid(hex=oid)].peel(pygit2.Tree)
        except (KeyError, ValueError, pygit2.InvalidSpecError) as error:
            raise SourceError(
                f"no tree {oid}",
                where=str(self.git_dir),
                remedy="run the source stage again; it fetches what is missing",
            ) from error

    def _walk(self, tree: pygit2.Tree, prefix: str) -> Iterator[tuple[str, Entry]]:
        for item in tree:
            path = f"{prefix}{item.name}"
            if item.type == ObjectType.TREE and isinstance(item, pygit2.Tree):
                yield from self._walk(item, f"{path}/")
            else:
                yield path, Entry(int(item.filemode), str(item.id))


def _remove(path: Path) -> bool:
    """Remove a file or link; False when nothing was there, or a folder that is not ours to judge."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False
    return True


def _conflicts(index: pygit2.Index) -> dict[str, pygit2.IndexEntry]:
    """Conflicts of an index by path, each with the first side that still has the file."""
    found = {}
    for sides in index.conflicts or ():
        entry = next(side for side in (sides[1], sides[2], sides[0]) if side is not None)
        found[entry.path] = entry
    return dict(sorted(found.items()))
