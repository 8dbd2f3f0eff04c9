"""The content-addressed cache: atomic writes, locks and digests.

Layout under the root: `blobs/<sha256>` (downloads and wheels), `trees/<key>/` (folders made
once), `git/<package>.git`, `records/<kind>/<key>.json`, `locks/`. A thing is either absent or
whole: everything is made beside its place and renamed into it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from builder.errors import DigestError, StoreError

_CHUNK = 1 << 20


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file, read in 1 MiB pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def key_of(parts: object) -> str:
    """A stable hex key of a JSON-able value: equal values, equal keys, on any machine."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def disk_error(error: OSError, where: str) -> StoreError | None:
    """What to tell of a full disk, a limit, a missing permission or lock; None when it is something else.

    `where` is named unless it is empty and the system names the file.
    """
    place = where or str(error.filename or "")
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreError(
            "the disk is full", where=place, remedy="free some space and run again; finished work is kept"
        )
    if error.errno == errno.EFBIG:
        return StoreError(
            "a file grew over what is allowed here",
            where=place,
            expected="no limit on the size of a file",
            remedy="raise it (`ulimit -f unlimited`), or choose another disk with store=PATH, and run again",
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreError(
            f"cannot {'write' if where else 'use'} it: {error.strerror}",
            where=place,
            remedy="mend its owner and mode, or choose another folder with store=PATH or out=PATH",
        )
    if place and error.errno in {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}:
        return StoreError(
            f"the file system there lacks what is needed: {error.strerror}",
            where=place,
            expected="a disk with locks and links, as local ones have",
            remedy="choose a local folder with store=PATH; wheels and the index may lie elsewhere (out=, index=)",
        )
    if error.errno in {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}:
        return StoreError(
            f"this cannot be a folder: {error.strerror}",
            where=place,
            expected="a folder, or a place for one",
            remedy="choose another folder with store=PATH, out=PATH or index=PATH",
        )
    return None


@contextmanager
def _no_space_is_said(where: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        known = disk_error(error, str(where))
        if known is None:
            raise
        raise known from error


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder itself, which falls with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _abandoned(part: Path) -> bool:
    handle = os.open(part, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


def atomic_write(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write the whole file or nothing; readers see the old bytes or the new ones."""
    with _no_space_is_said(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@dataclass(frozen=True, slots=True)
class Store:
    """One cache folder; safe with several builders at once, safe to kill at any moment."""

    root: Path

    def blob(self, sha256: str) -> Path | None:
        """The file with that digest, or None."""
        path = self.root / "blobs" / sha256
        return path if path.is_file() else None

    def put(self, chunks: Iterable[bytes], sha256: str = "", name: str = "", *, lasting: bool = False) -> Path:
        """Keep the bytes under their digest; with `sha256`, refuse others (DigestError).

        With `lasting` they are on the disk before they have their name, so that a power cut leaves all or nothing: for
        what is taken from here later without being read again.
        """
        folder = self.root / "blobs"
        with _no_space_is_said(folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".part-")
            try:
                digest = hashlib.sha256()
                with os.fdopen(handle, "wb") as stream:
                    fcntl.flock(stream, fcntl.LOCK_EX)
                    for chunk in chunks:
                        digest.update(chunk)
                        stream.write(chunk)
                    stream.flush()
                    if lasting:
                        os.fsync(stream.fileno())
                    found = digest.hexdigest()
                    if sha256 and found != sha256:
                        raise DigestError(
                            f"{name or 'a file'} is not the pinned one",
                            where=name,
                            expected=f"sha256 {sha256}, got {found}",
                            remedy="if upstream really replaced it, review the new file and update the pin",
                        )
                    Path(temporary).chmod(0o644)
                    path = folder / found
                    Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        return path

    def put_file(self, path: Path, sha256: str = "") -> Path:
        """Keep a copy of an existing file."""
        with path.open("rb") as stream:
            return self.put(iter(lambda: stream.read(_CHUNK), b""), sha256, path.name)

    def tree(self, key: str, make: Callable[[Path], None], *, lasting: bool = False) -> Path:
        """The folder `trees/<key>`, made once by `make(empty_folder)` and then never changed.

        With `lasting` it is on the disk before it has its name, as a file is by `put`.
        """
        path = self.root / "trees" / key
        if path.is_dir():
            return path
        with self.lock(f"tree-{key}"), _no_space_is_said(path):
            if path.is_dir():
                return path
            path.parent.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(dir=path.parent, prefix=".part-"))
            try:
                with _owned(work):
                    make(work)
                    work.chmod(0o755)
                    if lasting:
                        os.sync()  # all at once: of tens of thousands of files, each one's own takes minutes
                    work.rename(path)
            except BaseException:
                shutil.rmtree(work, ignore_errors=True)
                raise
        return path

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder on the store's disk, gone afterwards (`sweep` takes it after a kill)."""
        folder = self.root / "trees"
        with _no_space_is_said(folder):
            folder.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(dir=folder, prefix=".part-"))
            try:
                with _owned(work):
                    yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def sweep(self, older_than: float = 60.0) -> int:
        """Remove what killed builds left half made, and nothing that a living one is making.

        A part is locked by its maker while it lives. `older_than`, in seconds, covers the moment
        between making a part and locking it. Returns the number of parts removed.
        """
        removed = 0
        for part in self.abandoned(older_than):
            with suppress(OSError):
                removed += 1
                shutil.rmtree(part) if part.is_dir() else part.unlink()
        return removed

    def abandoned(self, older_than: float = 60.0) -> Iterator[Path]:
        """The parts that `sweep` removes."""
        for part in [part for folder in ("blobs", "trees") for part in (self.root / folder).glob(".part-*")]:
            with suppress(OSError):
                if time.time() - part.stat().st_mtime >= older_than and _abandoned(part):
                    yield part

    def record(self, kind: str, key: str) -> dict[str, object] | None:
        """A small JSON record kept earlier, or None; a damaged one counts as absent."""
        path = self.root / "records" / kind / f"{key}.json"
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def keep_record(self, kind: str, key: str, value: Mapping[str, object]) -> None:
        """Keep a small JSON record."""
        text = json.dumps(value, sort_keys=True, indent=1)
        atomic_write(self.root / "records" / kind / f"{key}.json", text.encode())

    def git_dir(self, package: str) -> Path:
        """Where the bare repository of a package's source is (made by builder.git)."""
        return self.root / "git" / f"{package}.git"

    @contextmanager
    def lock(self, name: str, timeout: float = -1) -> Iterator[None]:
        """Hold a lock by name across processes; it falls with the process that held it."""
        folder = self.root / "locks"
        with _no_space_is_said(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(folder / f"{name}.lock", timeout=timeout):
                yield
        except Timeout as error:
            raise StoreError(
                f"another build holds {name}", where=str(folder), remedy="wait for it, or stop it, and run again"
            ) from error
