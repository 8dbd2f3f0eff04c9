"""Unpack sdists and wheels into an empty folder, and nowhere else; read what a wheel says of itself.

`tarfile` and `zipfile` do the reading. What they would mend or leave to a filter (a leading slash, a setuid bit, a
name that comes twice) we refuse, by the member's name, because a good archive has none of it. The writing is our own:
Debian 12's Python has no filters yet, and without one `tarfile` hands files to whatever owner the archive names.
"""

from __future__ import annotations

import errno
import gzip
import io
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final

from builder.errors import ArchiveError

MAX_BYTES: Final = 16 << 30
"""Unpacked bytes of one archive; torch's wheel has 0.9 GB."""

MAX_MEMBERS: Final = 200_000
"""Members of one archive; torch's wheel has 13,000."""

_MAX_HEADER: Final = 1 << 20
_SPECIAL_BITS: Final = stat.S_ISUID | stat.S_ISGID
_CHUNK: Final = 1 << 20
_MAX_PART: Final = 255
_MAX_NAME: Final = 2048
"""Bytes of a name; Linux has 4,096 for a path, and the folder that it is unpacked into takes some."""

_DAMAGE = (
    *(EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
    *(NotImplementedError, ValueError, OverflowError, RecursionError),
)
"""The last three are numbers, names and chains of headers that `tarfile` and `zipfile` take as they stand."""


def unpack_sdist(path: Path, into: Path) -> None:
    """Unpack a .tar.gz into the empty folder `into`.

    Raises ArchiveError, naming the member, for anything that would land or point outside, is
    no file, folder or link, comes twice, or exceeds the bounds; and for a damaged archive.
    `into` is then to be thrown away (`Store.tree` does).
    """
    with _damage_is_said(path), gzip.open(path) as plain:
        ledger = _Ledger(path.name)
        with tarfile.open(fileobj=_Careful(plain, path.name), mode="r:") as tar:
            for member in tar:
                if _admit_tar(member, ledger):
                    _write_tar(tar, member, into)
        _read_to_the_end(plain, path.name)


def unpack_wheel(path: Path, into: Path, only: Callable[[str], bool] | None = None) -> None:
    """Unpack a wheel, or the members whose names `only` accepts, into the empty folder `into`.

    Executable bits are kept. Raises ArchiveError as `unpack_sdist` does; a wheel may not hold
    links at all. Members that `only` leaves out are checked too.
    """
    with _damage_is_said(path), zipfile.ZipFile(path) as archive:
        ledger = _Ledger(path.name)
        wanted = [info for info in archive.infolist() if _admit_zip(info, ledger)]
        for info in wanted:
            if only is None or only(info.filename):
                _write(archive, info, into / info.filename)


@contextmanager
def open_wheel(path: Path) -> Iterator[zipfile.ZipFile]:
    """A wheel to read from. Whatever is wrong with it, now or at any member, is an ArchiveError in words."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (*_DAMAGE, OSError, RuntimeError) as error:
        raise ArchiveError(
            f"{path.name} is no readable wheel: {error}",
            where=str(path),
            expected="a zip with one NAME-VERSION.dist-info folder, whole",
            remedy="take it again from where it came",
        ) from error


def dist_info_file(path: Path, name: str) -> bytes | None:
    """NAME-VERSION.dist-info/`name` of a wheel, None when it has none. Raises ArchiveError as `open_wheel` does."""
    with open_wheel(path) as archive:
        return in_dist_info(archive, name)


def in_dist_info(archive: zipfile.ZipFile, name: str) -> bytes | None:
    """The same of a wheel that is open; a wheel with two such folders raises BadZipFile."""
    found = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith(f".dist-info/{name}")]
    if len(found) > 1:
        raise zipfile.BadZipFile(f"it has {len(found)} .dist-info/{name} files, not one")
    return archive.read(found[0]) if found else None


@dataclass(slots=True)
class _Ledger:
    """Every path of an archive seen so far and its kind, and the bytes they sum to."""

    archive: str
    kinds: dict[PurePosixPath, str] = field(default_factory=dict)
    members: int = 0
    total: int = 0

    def refuse(self, name: str, why: str) -> ArchiveError:
        return ArchiveError(
            f"{self.archive} is not safe to unpack: {name!r} {why}",
            where=name,
            remedy="do not use this file; if the digest is the pinned one, look at who pinned it and when",
        )

    def admit(self, name: str, kind: str, size: int) -> PurePosixPath | None:
        """Note a member; its path, or None for the root itself. Raises ArchiveError."""
        path = self._inside(name)
        self._count(name, size)
        if not path.parts:
            return None
        before = self.kinds.get(path)
        if before is not None and (before, kind) != ("folder", "folder"):
            raise self.refuse(name, f"comes twice, as {before} and as {kind}")
        self._claim_parents(name, path)
        self.kinds[path] = kind
        return path

    def _inside(self, name: str) -> PurePosixPath:
        if why := _unwritable(name):
            raise self.refuse(name, why)
        path = PurePosixPath(name)
        if path.is_absolute():
            raise self.refuse(name, "is an absolute path")
        if ".." in path.parts:
            raise self.refuse(name, "climbs out of the folder with '..'")
        return path

    def _count(self, name: str, size: int) -> None:
        if size < 0:
            raise self.refuse(name, f"has {size} bytes")
        self.members += 1
        self.total += size
        if self.members > MAX_MEMBERS:
            raise self.refuse(name, f"is beyond {MAX_MEMBERS} members")
        if self.total > MAX_BYTES:
            raise self.refuse(name, f"brings the unpacked size beyond {MAX_BYTES} bytes")

    def _claim_parents(self, name: str, path: PurePosixPath) -> None:
        for parent in path.parents[:-1]:
            if self.kinds.setdefault(parent, "folder") != "folder":
                raise self.refuse(name, f"lies below {str(parent)!r}, which is a {self.kinds[parent]}")


def _unwritable(name: str) -> str:
    """Why no file can have the name, or empty."""
    if "\0" in name:
        return "has a NUL in its name"
    if any(len(os.fsencode(part)) > _MAX_PART for part in name.split("/")):
        return f"has a part of more than {_MAX_PART} bytes in its name"
    return f"has a name of more than {_MAX_NAME} bytes" if len(os.fsencode(name)) > _MAX_NAME else ""


def _admit_tar(member: tarfile.TarInfo, ledger: _Ledger) -> bool:
    """Check one tar member; False when there is nothing to write for it."""
    kind = _kind(member)
    if not kind:
        raise ledger.refuse(member.name, "is a device node, FIFO or other special file")
    if member.mode & _SPECIAL_BITS and kind != "folder":
        raise ledger.refuse(member.name, f"has setuid or setgid bits (mode {member.mode:o})")
    path = ledger.admit(member.name, kind, member.size)
    if path is not None and kind == "link":
        _check_symbolic(member, path, ledger)
    if path is not None and kind == "hard link":
        _check_hard(member, ledger)
    return path is not None


def _kind(member: tarfile.TarInfo) -> str:
    kinds = {"file": member.isreg(), "folder": member.isdir(), "link": member.issym(), "hard link": member.islnk()}
    return next((kind for kind, true in kinds.items() if true), "")


def _check_symbolic(member: tarfile.TarInfo, path: PurePosixPath, ledger: _Ledger) -> None:
    """Allow `../` only at the start of a target: behind a name it could turn at another link."""
    if not member.linkname or _unwritable(member.linkname):
        raise ledger.refuse(member.name, "is a link to what no file can be called")
    target = PurePosixPath(member.linkname)
    climbs = 0
    while target.parts[climbs : climbs + 1] == ("..",):
        climbs += 1
    if target.is_absolute() or climbs >= len(path.parts) or ".." in target.parts[climbs:]:
        raise ledger.refuse(member.name, f"is a link that may point outside, to {member.linkname!r}")


def _check_hard(member: tarfile.TarInfo, ledger: _Ledger) -> None:
    target = PurePosixPath(member.linkname)
    if target.is_absolute() or ledger.kinds.get(target) != "file":
        raise ledger.refuse(member.name, f"is a hard link to {member.linkname!r}, no earlier file of the archive")


def _admit_zip(info: zipfile.ZipInfo, ledger: _Ledger) -> bool:
    """Check one zip member; True when it is a file to write."""
    mode = info.external_attr >> 16
    name = info.orig_filename
    if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise ledger.refuse(name, "is a link or special file, which wheels may not have")
    if mode & _SPECIAL_BITS and not info.is_dir():
        raise ledger.refuse(name, f"has setuid or setgid bits (mode {mode:o})")
    if info.flag_bits & 1:
        raise ledger.refuse(name, "is encrypted")
    if info.filename != name:  # zipfile cuts names, and what is written is what was checked
        raise ledger.refuse(name, f"would be unpacked as {info.filename!r}")
    path = ledger.admit(name, "folder" if info.is_dir() else "file", info.file_size)
    return path is not None and not info.is_dir()


def _write_tar(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    target = into / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        target.hardlink_to(into / member.linkname)
    elif (source := tar.extractfile(member)) is not None:
        _copy(source, target, member.mode)


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(info) as source:
        _copy(source, target, info.external_attr >> 16)


def _copy(source: IO[bytes], target: Path, mode: int) -> None:
    with target.open("xb") as sink:
        shutil.copyfileobj(source, sink, _CHUNK)
    target.chmod(0o755 if mode & 0o111 else 0o644)


class _Careful(io.RawIOBase):
    """A stream that refuses large single reads.

    tarfile copies file data in small pieces; only a header extension that lies about its
    length would be read in one, into memory.
    """

    def __init__(self, plain: gzip.GzipFile, name: str) -> None:
        self._plain = plain
        self._name = name

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > _MAX_HEADER:
            raise ArchiveError(
                f"{self._name} has a header of {size} bytes",
                where=self._name,
                expected=f"at most {_MAX_HEADER}",
                remedy="do not use this file",
            )
        return self._plain.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._plain.seek(offset, whence)

    def tell(self) -> int:
        return self._plain.tell()


def _read_to_the_end(plain: gzip.GzipFile, name: str) -> None:
    """Check the gzip checksum behind tar's end mark, where only padding may stand."""
    for _ in _pieces(plain):
        if plain.tell() > MAX_BYTES:
            raise ArchiveError(f"{name} goes on beyond {MAX_BYTES} bytes", where=name, remedy="do not use this file")


def _pieces(plain: gzip.GzipFile) -> Iterator[bytes]:
    return iter(lambda: plain.read(_CHUNK), b"")


@contextmanager
def _damage_is_said(path: Path) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGE, OSError) as error:
        if not _is_damage(error):
            raise
        raise ArchiveError(
            f"{path.name} is damaged: {str(error) or type(error).__name__}",
            where=str(path),
            expected="a whole archive",
            remedy="remove the file and run again; it is fetched anew",
        ) from error


def _is_damage(error: Exception) -> bool:
    """Of the system's own errors only what a place before the file's begin gives: a full disk is no damage."""
    return isinstance(error, _DAMAGE) or (isinstance(error, OSError) and error.errno == errno.EINVAL)
