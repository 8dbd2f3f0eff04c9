"""What a wheel says of itself in four places, and where they disagree. Nothing is unpacked to disk."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from math import prod

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from builder.errors import InspectError
from builder.finding import Finding
from builder.inspect.facts import WheelFacts
from builder.inspect.record import record_lines
from builder.inspect.zips import Archive, Member

_MANYLINUX = re.compile(r"manylinux_(\d{1,9})_(\d{1,9})_")
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_UNHASHED = re.compile(r"[^/]+\.dist-info/RECORD(?:\.jws|\.p7s)?")
_STRAY = re.compile(r"(?:^|/)(?:__pycache__/|\.git(?!keep$)|\.DS_Store$|core\.\d+$)|\.(?:pyc|pyo|orig|rej|o|swp)$|~$")
_LENGTH = re.compile(r"[0-9]{1,18}")
_SMALL, _MOST_TAGS = 1 << 24, 1 << 12


@dataclass(frozen=True, slots=True)
class Record:
    """RECORD's lines: path → (urlsafe base64 sha256 or empty, size or -1)."""

    lines: dict[str, tuple[str, int]]
    path: str


def describe(archive: Archive, filename: str) -> tuple[WheelFacts, Record, tuple[Finding, ...]]:
    """Facts, RECORD and every contradiction that needs no file's contents but the metadata's."""
    folders = sorted(
        {m.name.partition("/")[0] for m in archive.members if ".dist-info/" in m.name.partition("/")[0] + "/"}
    )
    findings = list(_one_folder(folders, archive.where))
    own = _own_folder(folders, filename)
    by_name = {member.name: member for member in archive.members}
    metadata, wheel = (_message(archive, by_name, f"{own}/{part}") for part in ("METADATA", "WHEEL"))
    record = _record(archive, by_name, f"{own}/RECORD")
    said_tags = tuple(sorted(_tags(wheel.get_all("Tag") or ())))
    name, version, tags = _filename(filename) or (metadata.get("Name", ""), metadata.get("Version", ""), said_tags)
    findings += _names(filename, own, metadata, archive.where)
    findings += _tag_findings(filename, tags, said_tags, f"{own}/WHEEL")
    findings += _members(archive, record)
    facts = WheelFacts(name, version, tags, own, glibc_tag(tags), _sizes(archive.members))
    return facts, record, tuple(findings)


def glibc_tag(tags: Iterable[str]) -> str:
    """The oldest glibc that the platform tags promise to run on, `2.35`; empty when they promise none."""
    found = []
    for tag in tags:
        platform = tag.rpartition("-")[2]
        legacy = next((glibc for name, glibc in _LEGACY.items() if platform.startswith(f"{name}_")), None)
        match = _MANYLINUX.match(platform)
        text = legacy or (f"{match[1]}.{match[2]}" if match else None)
        if text:
            found.append(tuple(int(part) for part in text.split(".")))
    return ".".join(map(str, min(found))) if found else ""


def check_digest(record: Record, member: Member, digest: bytes) -> Finding | None:
    """A finding when the member's sha256 is not the one that RECORD names."""
    said, size = record.lines.get(member.name, ("", -1))
    found = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if not said or (found == said.rstrip("=") and size in {-1, member.size}):
        return None
    return Finding(
        "record",
        member.name,
        f"RECORD says sha256 {said} and {size} B; the file has {found} and {member.size} B",
        "the file was changed after the wheel was packed: build the wheel again, never edit it",
    )


def _one_folder(folders: list[str], where: str) -> Iterator[Finding]:
    if len(folders) != 1:
        yield Finding(
            "dist-info",
            where,
            f"a wheel has one .dist-info folder, this one has {len(folders)}: {', '.join(folders) or 'none'}",
            "pack it again with one; installers take either of two",
        )


def _own_folder(folders: list[str], filename: str) -> str:
    wanted = "-".join(filename.split("-")[:2]) + ".dist-info"
    return wanted if wanted in folders or not folders else folders[0]


def _message(archive: Archive, by_name: dict[str, Member], name: str) -> Message:
    text = _small(archive, by_name, name).decode(errors="replace")  # bytes would make headers that are no strings
    return HeaderParser().parsestr(text)


def _small(archive: Archive, by_name: dict[str, Member], name: str) -> bytes:
    member = by_name.get(name)
    if member is None:
        return b""
    if member.size > _SMALL:
        raise InspectError(f"{name} is {member.size} B", where=archive.where, expected=f"at most {_SMALL} B")
    return bytes(archive.read(member))


def _record(archive: Archive, by_name: dict[str, Member], path: str) -> Record:
    text = _small(archive, by_name, path).decode(errors="replace")
    try:
        said = record_lines(text)
    except ValueError as error:
        raise InspectError(f"RECORD is no CSV ({error})", where=archive.where, expected="path,sha256=…,size") from error
    return Record({name: (_value(digest), _length(size)) for name, (digest, size) in said.items()}, path)


def _value(digest: str) -> str:
    kind, _, value = digest.partition("=")
    return value if kind == "sha256" else ""


def _length(size: str) -> int:
    return int(size) if _LENGTH.fullmatch(size) else -1


def _filename(filename: str) -> tuple[str, str, tuple[str, ...]] | None:
    try:
        _, version, _, tags = parse_wheel_filename(filename)
    except (InvalidWheelFilename, InvalidVersion):
        return None
    return filename.partition("-")[0], str(version), tuple(sorted(map(str, tags)))


def _tags(lines: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for line in lines:
        if _product(line) > _MOST_TAGS:
            raise InspectError(
                f"a tag in WHEEL stands for {_product(line)} tags", where="WHEEL", expected=f"at most {_MOST_TAGS}"
            )
        try:
            found |= {str(tag) for tag in parse_tag(line.strip())}
        except ValueError:
            found.add(line.strip())
    return found


def _product(line: str) -> int:
    """How many tags `py2.py3-none-any` stands for: each part multiplies."""
    return prod(part.count(".") + 1 for part in line.split("-"))


def _names(filename: str, own: str, metadata: Message, where: str) -> Iterator[Finding]:
    """File name, .dist-info folder and METADATA must name one project and version."""
    parsed = _filename(filename)
    if parsed is None:
        yield Finding(
            "wheel-name", where, f"{filename} is no wheel file name", "name-version-python-abi-platform.whl is one"
        )
    stem = own.removesuffix(".dist-info")
    places = {
        "the file name": (parsed[0], parsed[1]) if parsed else None,
        f"the folder {own}": (stem.partition("-")[0], stem.partition("-")[2]) if own else None,
        "METADATA": (str(metadata.get("Name", "")), str(metadata.get("Version", ""))),
    }
    said = {place: (canonicalize_name(pair[0]), _version(pair[1])) for place, pair in places.items() if pair}
    for index, what in enumerate(("name", "version")):
        if len({pair[index] for pair in said.values()}) > 1:
            text = ", ".join(f"{place} says {pair[index] or 'nothing'}" for place, pair in said.items())
            yield Finding(
                f"wheel-{what}", where, text, "build the wheel with that version; renaming a file changes nothing in it"
            )


def _version(text: str) -> str:
    try:
        return str(Version(text))
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return text


def _tag_findings(filename: str, tags: tuple[str, ...], said: tuple[str, ...], where: str) -> Iterator[Finding]:
    if set(tags) != set(said):
        yield Finding(
            "wheel-tags",
            where,
            f"{filename} carries {', '.join(tags) or 'no tags'} in its name, {', '.join(said) or 'none'} in WHEEL",
            "retag with a tool that writes both (python -m wheel tags), or build again",
        )


def _members(archive: Archive, record: Record) -> Iterator[Finding]:
    counts = Counter(member.name for member in archive.members)
    yield from (_doubled(name, count) for name, count in sorted(counts.items()) if count > 1)
    listed, present = set(record.lines), set(counts)
    if not record.lines:
        yield Finding("record", record.path, "there is no RECORD, or it is empty", "build the wheel again")
    else:
        yield from _unlisted(name for name in sorted(present - listed) if not _UNHASHED.fullmatch(name))
        yield from (_absent(name) for name in sorted(listed - present))
    for member in archive.members:
        digest, size = record.lines.get(member.name, ("", -1))
        if size not in {-1, member.size}:
            yield _wrong_size(member, size)
        if record.lines and member.name in listed and not digest and not _UNHASHED.fullmatch(member.name):
            yield Finding("record", member.name, "RECORD names no sha256 for it", "build the wheel again")
        if _STRAY.search(member.name):
            yield Finding("stray", member.name, "a leftover of a build or an editor", "leave it out of the wheel")
        if _escapes(member.name):
            yield Finding("stray", member.name, "it would be installed outside its folder", "do not install this wheel")


def _escapes(name: str) -> bool:
    return name.startswith("/") or "\\" in name or ".." in name.split("/")


def _doubled(name: str, count: int) -> Finding:
    return Finding("record", name, f"the archive holds {count} files of this name", "build the wheel again")


def _unlisted(names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        yield Finding("record", name, "the file is not in RECORD", "build the wheel again, never add to it")


def _absent(name: str) -> Finding:
    return Finding("record", name, "RECORD lists a file that is not there", "build the wheel again")


def _wrong_size(member: Member, size: int) -> Finding:
    return Finding("record", member.name, f"RECORD says {size} B, it has {member.size} B", "build the wheel again")


def _sizes(members: Iterable[Member]) -> dict[str, int]:
    sizes: Counter[str] = Counter()
    for member in members:
        sizes[member.name.partition("/")[0]] += member.size
    return dict(sorted(sizes.items()))
