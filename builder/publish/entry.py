"""What an index says of one file, and how that is read from a wheel or from a page."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from packaging.metadata import InvalidMetadata, Metadata
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from builder.archive import dist_info_file
from builder.errors import ArchiveError, PublishError
from builder.model import VerifiedWheel
from builder.publish.shelf import refuse_other_bytes
from builder.store import sha256_of
from builder.supply import SUFFIX, read_statement

_LINUX = re.compile(r"(?:many|musl)?linux(?:\d+|_\d+_\d+)?_(?P<machine>.+)")


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One wheel as the pages describe it.

    `yanked` is None for a file on offer; else the reason (PEP 592), which may be empty.
    `upload_time` is UTC in ISO 8601, when the file first came to this index. `statement_sha256` is
    the digest of its provenance statement, empty when it came without one; `provenance` the whole
    address of its signed attestations (PEP 740), empty until `attest` has checked them. `release` is
    the same for all files that one call brought, though a kill made two calls of it; empty on old pages.
    """

    filename: str
    sha256: str
    size: int
    metadata_sha256: str
    upload_time: str
    requires_python: str = ""
    yanked: str | None = None
    statement_sha256: str = ""
    provenance: str = ""
    release: str = ""

    @property
    def version(self) -> Version:
        """The version that the file name gives, local label included."""
        return release_of(self.filename)[1]

    @property
    def platforms(self) -> frozenset[str]:
        """`linux-aarch64` of every manylinux_*_aarch64 tag; `any` for pure wheels."""
        return frozenset(_platform(tag.platform) for tag in release_of(self.filename)[2])

    @property
    def key(self) -> str:
        """Where its bytes lie: under their digest, so that no name is ever overwritten."""
        return self.beside(self.filename)

    @property
    def url(self) -> str:
        """Its address from a project page; `+` and friends quoted."""
        return f"../../{quote(self.key)}"

    @property
    def statement_key(self) -> str:
        """Where its statement lies: beside it under its own digest, for two builders' statements may differ."""
        return self.beside(f"{self.statement_sha256}.provenance.json")

    @property
    def keys(self) -> tuple[str, ...]:
        """Everything that lies there for its sake."""
        statement = (self.statement_key,) if self.statement_sha256 else ()
        return (self.key, f"{self.key}.metadata", *statement, *self.signed_keys)

    @property
    def signed_keys(self) -> tuple[str, ...]:
        """Where its signed attestations lie: one place, or none."""
        return (self.beside(self.provenance.rpartition("/")[2]),) if self.provenance else ()

    def beside(self, name: str) -> str:
        """Where a file of that name lies beside the wheel."""
        return f"files/{self.sha256[:2]}/{self.sha256}/{name}"


@dataclass(frozen=True, slots=True)
class Retired:
    """A file that left the page at `since` (UTC, ISO 8601). Its name stays bound to its bytes."""

    filename: str
    sha256: str
    since: str


@dataclass(frozen=True, slots=True)
class Project:
    """All files of one project, by name. `serial` grows with every change."""

    name: str
    serial: int = 0
    files: tuple[IndexFile, ...] = ()
    retired: tuple[Retired, ...] = ()

    @property
    def bound(self) -> dict[str, str]:
        """File name → sha256 of every name that was ever published."""
        return {entry.filename: entry.sha256 for entry in self.retired} | {f.filename: f.sha256 for f in self.files}

    @property
    def versions(self) -> tuple[str, ...]:
        """Every version on the page, oldest first."""
        return tuple(str(v) for v in sorted({file.version for file in self.files}))


@dataclass(frozen=True, slots=True)
class Offer:
    """A wheel on its way in: its entry without a time, the bytes of its METADATA and of its statement, if any."""

    project: str
    path: Path
    file: IndexFile
    metadata: bytes
    statement: bytes = b""


def read_offer(verified: VerifiedWheel, statement: bytes = b"") -> Offer:
    """Read a verified wheel as an entry.

    Raises PublishError when it cannot be read or changed since, and for another wheel's statement.
    """
    path = verified.wheel.path
    name, version = _named(path)
    raw = _metadata_bytes(path)
    metadata = _parsed(raw, path)
    if canonicalize_name(metadata.name) != name or metadata.version != version:
        raise PublishError(
            f"{path.name} describes itself as {metadata.name} {metadata.version}",
            where=str(path),
            expected=f"{name} {version}, as the file name says",
            remedy="a wheel is renamed by rebuilding it; verify and publish the rebuilt one",
        )
    found = sha256_of(path)
    refuse_other_bytes(path, found, verified.wheel.sha256)
    if statement:
        _refuse_foreign(statement, path, found)
    return Offer(
        project=name,
        path=path,
        file=IndexFile(
            filename=path.name,
            sha256=found,
            size=path.stat().st_size,
            metadata_sha256=hashlib.sha256(raw).hexdigest(),
            upload_time="",
            requires_python=str(metadata.requires_python or ""),
            statement_sha256=hashlib.sha256(statement).hexdigest() if statement else "",
        ),
        metadata=raw,
        statement=statement,
    )


def project_from_page(name: str, data: bytes, where: str) -> Project:
    """Read a project's JSON page back; PublishError when it is damaged or not one of ours."""
    try:
        page = json.loads(data)
        files = tuple(_file_from(entry) for entry in page["files"])
        retired = tuple(Retired(**entry) for entry in page.get("_retired", ()))
        return Project(name, int(page["meta"]["_last-serial"]), tuple(sorted(files, key=_by_name)), retired)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(where, error) from error


def damaged(where: str, error: Exception) -> PublishError:
    """The error for a page that cannot be trusted to grow."""
    return PublishError(
        "a page of the index cannot be read",
        where=where,
        expected=f"a page that this tool wrote ({type(error).__name__}: {error})",
        remedy="restore the page from a backup, or publish to an empty folder",
    )


def _file_from(entry: Mapping[str, Any]) -> IndexFile:
    yanked = entry.get("yanked", False)
    return IndexFile(
        filename=entry["filename"],
        sha256=entry["hashes"]["sha256"],
        size=entry["size"],
        metadata_sha256=entry["core-metadata"]["sha256"],
        upload_time=entry["upload-time"],
        requires_python=entry.get("requires-python", ""),
        yanked=None if yanked is False else "" if yanked is True else cast("str", yanked),
        statement_sha256=entry.get("_statement", {}).get("sha256", ""),
        provenance=entry.get("provenance") or "",
        release=entry.get("_release", ""),
    )


def _refuse_foreign(statement: bytes, path: Path, sha256: str) -> None:
    try:
        subject = read_statement(statement)
        fault = "" if (subject.wheel, subject.sha256) == (path.name, sha256) else f"it is of {subject.wheel}"
    except ValueError as error:
        fault = str(error)
    if fault:
        raise PublishError(
            f"the provenance statement is not of {path.name}: {fault}",
            where=f"{path}{SUFFIX}",
            expected=f"a statement whose subject is {path.name} with sha256 {sha256}",
            remedy="publish the statement that the build wrote beside the wheel",
        )


def _by_name(file: IndexFile) -> str:
    return file.filename


@functools.lru_cache(maxsize=1 << 15)
def release_of(filename: str) -> tuple[str, Version, frozenset[Tag]]:
    """What a file name says: project, version and tags, however they are spelt and whatever build tag there is."""
    name, version, _, tags = parse_wheel_filename(filename)
    return name, version, tags


def _platform(tag: str) -> str:
    match = _LINUX.fullmatch(tag)
    return f"linux-{match['machine']}" if match else tag


def _named(path: Path) -> tuple[str, Version]:
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise _unreadable(path, str(error)) from error
    return name, version


def _metadata_bytes(path: Path) -> bytes:
    try:
        data = dist_info_file(path, "METADATA")
    except ArchiveError as error:
        raise _unreadable(path, str(error.__cause__)) from error
    if data is None:
        raise _unreadable(path, "it has no .dist-info/METADATA")
    return data


def _parsed(raw: bytes, path: Path) -> Metadata:
    try:
        metadata = Metadata.from_email(raw, validate=False)
        _ = metadata.name, metadata.version, metadata.requires_python  # each is checked when first read
    except (InvalidMetadata, ExceptionGroup, ValueError) as error:
        raise _unreadable(path, f"METADATA: {error}") from error
    return metadata


def _unreadable(path: Path, why: str) -> PublishError:
    return PublishError(
        f"{path.name} is not a readable wheel: {why}",
        where=str(path),
        expected="a zip with one NAME-VERSION.dist-info/METADATA, named as PEP 427 says",
        remedy="build and verify it again",
    )
