"""The wheels of an image: every installed file held against RECORD, and against the wheel that was verified."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name, parse_wheel_filename

from builder.archive import in_dist_info, open_wheel
from builder.errors import ArchiveError, InspectError
from builder.finding import Finding
from builder.inspect.oci import ContainerFacts, Root
from builder.inspect.record import record_lines, sha256_in
from builder.verify.image.landing import landed
from builder.verify.image.places import Python

_SITE = re.compile(r"(?P<site>.*/site-packages)/(?P<info>[^/]+\.dist-info)/RECORD")
_REWRITTEN = re.compile(r"[^/]+\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json)")
_SHOWN: Final = 3
_REMEDY: Final = "build the image again; change wheels, never images"
_NEWEST: Final = Python("3.12")


@dataclass(frozen=True, slots=True)
class Installed:
    """A wheel as the image must have it: what it is called, and where its files land (path → `sha256=…`, size).

    Paths are relative to site-packages. Where wheels bring different files of one path, `ours` decides.
    """

    name: str
    version: str
    filename: str
    lines: Mapping[str, tuple[str, str]]
    ours: bool = True

    @property
    def info(self) -> str:
        """Its .dist-info folder."""
        return next(path.partition("/")[0] for path in self.lines if path.partition("/")[0].endswith(".dist-info"))


def installed_of(path: Path, filename: str = "", python: Python = _NEWEST, *, ours: bool = True) -> Installed:
    """Read where a wheel's files land; `filename` where the file itself is called otherwise.

    Raises InspectError when it has no RECORD.
    """
    try:
        name, version, _, _ = parse_wheel_filename(filename or path.name)
        with open_wheel(path) as archive:
            record = in_dist_info(archive, "RECORD")
            if record is None:
                raise ValueError("it has none")
            lines = landed(archive, record_lines(record.decode()), name, python)
    except (ArchiveError, ValueError, KeyError) as error:
        raise InspectError(
            f"this wheel has no readable RECORD ({getattr(error, 'what', error)})", where=filename or str(path)
        ) from error
    return Installed(name, str(version), filename or path.name, lines, ours)


def wheel_findings(image: ContainerFacts, wheels: tuple[Installed, ...]) -> Iterator[Finding]:
    """Files that differ from RECORD, files of no RECORD, and verified wheels that are not what is installed."""
    records, unread = _records(image.root)
    for path in unread:
        yield finding("image-record", f"/{path}", [path.rpartition("/")[2]], "is no table that can be read")
    for site, folders in records.items():
        yield from _against_record(image.root, site, folders)
        yield from _strays(image.root, site, folders)
    said = stated(wheels)
    for wheel in wheels:
        yield from _against_wheel(image.root, records, wheel, said)


def stated(wheels: tuple[Installed, ...]) -> dict[str, set[str]]:
    """Path → the digests of which it must have one: of wheels that share a path, ours decide."""
    said: dict[str, set[str]] = {}
    own = {path for wheel in wheels if wheel.ours for path in wheel.lines}
    for wheel in wheels:
        for path, (digest, _) in wheel.lines.items():
            if wheel.ours or path not in own:
                said.setdefault(path, set()).add(digest)
    return said


def _records(root: Root) -> tuple[dict[str, dict[str, Mapping[str, tuple[str, str]]]], list[str]]:
    """site-packages → .dist-info folder → RECORD's lines, and the RECORDs that cannot be read: they have none."""
    found: dict[str, dict[str, Mapping[str, tuple[str, str]]]] = {}
    unread = []
    for path in root.texts:
        if match := _SITE.fullmatch(path):
            try:
                lines = record_lines(root.text(path) or "")
            except ValueError:
                lines = {}
                unread.append(path)
            found.setdefault(match["site"], {})[match["info"]] = lines
    return found, unread


def _against_record(root: Root, site: str, folders: Mapping[str, Mapping[str, tuple[str, str]]]) -> Iterator[Finding]:
    """A file that several wheels bring must be one of theirs; which one, the verified wheels decide."""
    said: dict[str, set[str]] = {}
    for lines in folders.values():
        for path, (digest, _) in lines.items():
            said.setdefault(path, set()).add(digest)
    for info, lines in folders.items():
        wrong = [path for path in lines if not any(_same(root, f"{site}/{path}", digest) for digest in said[path])]
        if wrong:
            yield finding("image-record", f"{site}/{info}", wrong, "is not what its RECORD says")
        bare = [path for path, (digest, _) in lines.items() if not digest and path not in _bare(info)]
        if bare:
            yield finding("image-record", f"{site}/{info}", bare, "has no digest in RECORD")


def _bare(info: str) -> set[str]:
    """What RECORD cannot have a digest of: itself, and its signatures."""
    return {f"{info}/RECORD{suffix}" for suffix in ("", ".jws", ".p7s")}


def _strays(root: Root, site: str, folders: Mapping[str, Mapping[str, tuple[str, str]]]) -> Iterator[Finding]:
    known = {root.real(f"{site}/{path}") for lines in folders.values() for path in lines}
    loose = sorted(
        path.removeprefix(f"{site}/")
        for path in root.below(site)
        if root.entries[path].kind != "folder" and path not in known
    )
    if loose:
        yield finding("image-stray", site, loose, "belongs to no installed wheel")


def _against_wheel(
    root: Root,
    records: Mapping[str, Mapping[str, Mapping[str, tuple[str, str]]]],
    wheel: Installed,
    said: Mapping[str, set[str]],
) -> Iterator[Finding]:
    sites = [site for site, folders in records.items() if wheel.info in folders]
    if len(sites) != 1:
        named = {info: canonicalize_name(info.partition("-")[0]) for folders in records.values() for info in folders}
        others = sorted(info for info, name in named.items() if name == canonicalize_name(wheel.name))
        there = ", ".join(others) or "nothing"
        message = f"{wheel.filename} is installed {len(sites)} times; of that project there is {there}"
        yield Finding("image-wheel", wheel.name, message, "build the image again from the verified wheels")
        return
    wrong = [
        path
        for path in wheel.lines
        if not _REWRITTEN.fullmatch(path) and not any(_same(root, f"{sites[0]}/{path}", d) for d in said[path])
    ]
    if wrong:
        yield finding(
            "image-wheel", wheel.filename, wrong, f"is not the {'verified' if wheel.ours else 'locked'} wheel's"
        )


def _same(root: Root, path: str, digest: str) -> bool:
    """True when the file is there with that digest; a line without one asks only that it is there."""
    entry = root.entry(path)
    if entry is None or entry.kind != "file":
        return False
    if not digest.partition("=")[2]:
        return True
    found = sha256_in(digest)
    return found != "" and found == entry.sha256


def finding(rule: str, where: str, paths: list[str], what: str, remedy: str = _REMEDY) -> Finding:
    """One finding about many paths, the first of which are named."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return Finding(rule, where, f"{', '.join(paths[:_SHOWN])}{more} {what}", remedy)
