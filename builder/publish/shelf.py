"""Where an index lies: a small set of effects that a folder and an object store can both give.

A page is written only over the version that its writer has read, so two publishers cannot
undo one another; a file under `files/` carries its digest in its path and never changes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol

from filelock import FileLock

from builder.errors import PublishError, StoreError
from builder.store import atomic_write

_LOCK = ".lock"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """A page as it stands: its bytes, and a version that changes when they do."""

    data: bytes
    version: str


@dataclass(frozen=True, slots=True)
class Item:
    """One thing on a shelf, with its size in bytes and when it was last written."""

    key: str
    size: int
    written: datetime


class Shelf(Protocol):
    """The effects that publishing needs. Keys are relative, with `/`.

    What cannot be reached or written raises StoreError.
    """

    def read(self, key: str) -> Kept | None:
        """The page at `key`, or None."""
        ...

    def write(self, key: str, data: bytes, *, over: Kept | None) -> bool:
        """Replace the page whole; False, and nothing done, when it is no longer `over`."""
        ...

    def has(self, key: str, size: int) -> bool:
        """Whether an immutable file of that many bytes is there."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Keep a small immutable file."""
        ...

    def put_file(self, key: str, path: Path, sha256: str) -> None:
        """Keep a copy of a large immutable file; PublishError when it no longer has that digest."""
        ...

    def items(self, prefix: str) -> Iterator[Item]:
        """Everything whose key starts with the folder `prefix`, leftovers of killed writers too."""
        ...

    def delete(self, item: Item) -> bool:
        """Remove it, unless it was written again since it was listed."""
        ...


@dataclass(frozen=True, slots=True)
class FolderShelf:
    """An index in a folder, for any static server. Nothing is created before the first write."""

    root: Path

    def read(self, key: str) -> Kept | None:
        """The page at `key`, or None."""
        try:
            data = (self.root / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Kept(data, hashlib.sha256(data).hexdigest())

    def write(self, key: str, data: bytes, *, over: Kept | None) -> bool:
        """Replace the page by a rename."""
        with self._writing():
            if self.read(key) != over:
                return False
            self._make((self.root / key).parent)
            atomic_write(self.root / key, data)
        return True

    def has(self, key: str, size: int) -> bool:
        """Whether an immutable file of that many bytes is there."""
        try:
            return (self.root / key).stat().st_size == size
        except OSError:
            return False

    def put(self, key: str, data: bytes) -> None:
        """Keep a small immutable file."""
        with self._arriving(key) as sink:
            sink.write(data)

    def put_file(self, key: str, path: Path, sha256: str) -> None:
        """Copy beside its place, then rename: a reader sees the whole file or none."""
        with self._arriving(key) as sink:
            refuse_other_bytes(path, _copy(path, sink), sha256)

    def items(self, prefix: str) -> Iterator[Item]:
        """Everything under the folder `prefix`, in no order."""
        for folder, _, names in os.walk(self.root / prefix):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    yield self._item(path)

    def delete(self, item: Item) -> bool:
        """Remove a file, and its folder when that leaves it empty."""
        path = self.root / item.key
        with self._writing():
            if not path.exists() or self._item(path) != item:
                return False
            path.unlink()
            with suppress(OSError):
                path.parent.rmdir()
        return True

    def _item(self, path: Path) -> Item:
        stat = path.stat()
        return Item(path.relative_to(self.root).as_posix(), stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC))

    @contextmanager
    def _arriving(self, key: str) -> Iterator[IO[bytes]]:
        """A file that takes its place when the block ends well. The lock is not held for the bytes."""
        place = self.root / key
        with self._writing():  # gc removes empty folders under the same lock
            self._make(place.parent)
            handle, name = tempfile.mkstemp(dir=place.parent, prefix=".part-")
        with _unwritable_is_said(self.root):
            try:
                with os.fdopen(handle, "wb") as sink:
                    yield sink
                    sink.flush()
                    os.fchmod(sink.fileno(), 0o644)
                    os.fsync(sink.fileno())
                with self._writing():
                    Path(name).replace(place)
                _settle(place.parent)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def _make(self, folder: Path) -> None:
        """A folder that a server's user can enter, whatever our umask, as it can read the files."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        inside = [folder, *(each for each in folder.parents if each.is_relative_to(self.root))]
        for each in reversed(inside):
            with suppress(FileExistsError):
                each.mkdir()
                each.chmod(0o755)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the index's lock, for moments only; it falls with its process."""
        with _unwritable_is_said(self.root):
            self._make(self.root)
            with FileLock(self.root / _LOCK):
                yield


def refuse_other_bytes(path: Path, found: str, sha256: str) -> None:
    """Only the bytes that were verified are published; raises PublishError for others."""
    if found != sha256:
        raise PublishError(
            f"{path.name} changed after it was verified",
            where=str(path),
            expected=f"sha256 {sha256}, got {found}",
            remedy="verify it again, then publish",
        )


def _copy(path: Path, sink: IO[bytes]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        for chunk in iter(lambda: source.read(_CHUNK), b""):
            digest.update(chunk)
            sink.write(chunk)
    return digest.hexdigest()


def _settle(folder: Path) -> None:
    """Make names durable before a page that links them can be: after a power cut too."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _unwritable_is_said(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write to the index: {error.strerror or error}",
            where=str(error.filename or root),
            remedy="free some space or choose another folder, and run again; what was published stays",
        ) from error
