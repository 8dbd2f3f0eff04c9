"""A wheel, a binary or a folder, read on all cores."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.errors import InspectError
from builder.finding import Finding
from builder.inspect.facts import FileFacts, Level, ObjectFacts
from builder.inspect.objects import HEAD, Asked, inspect_object, is_object
from builder.inspect.room import Errand, Room, errands
from builder.inspect.work import beside, cores, mapped, sha256, share, workers
from builder.inspect.zips import Archive, Member, open_archive

_SUFFIXED = re.compile(r"\.(?:so(?:\.[\d.]+)?|o|a|cubin|fatbin|ptx)$")
_LARGE, _BATCH = 1 << 20, 256


def read_file(
    path: Path, data: memoryview, level: Level, devices: tuple[str, ...], pool: ThreadPoolExecutor
) -> FileFacts:
    """Facts of a wheel or a binary, without its digest. Raises InspectError for what is neither, or damaged."""
    asked = Asked(level, devices, partial(share, pool))
    if path.suffix == ".whl":
        return _wheel(path, open_archive(data, str(path)), asked, pool)
    if is_object(path.name, bytes(data[:HEAD])):
        objects = tuple(inspect_object(path.name, data, asked, str(path)))
        return FileFacts(str(path), "", len(data), None, objects, tuple(_bare(objects)))
    raise InspectError(
        "this is neither a wheel nor a binary with device code",
        where=str(path),
        expected=".whl, ELF (.so, .o, .cubin), .fatbin, .ptx or .a",
        remedy="name another file",
    )


def read_folder(path: Path, level: Level, devices: tuple[str, ...]) -> FileFacts:
    """Facts of the objects in a folder, without a digest of it. Raises InspectError when there are none."""
    objects, findings = list[ObjectFacts](), list[Finding]()
    files = sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink())
    total = 0
    with workers() as pool:
        asked = Asked(level, devices, partial(share, pool))
        for file in files:
            with mapped(file) as data:
                total += len(data)
                name = file.relative_to(path).as_posix()
                if is_object(name, bytes(data[:HEAD])):
                    objects += inspect_object(name, data, asked, str(file))
                else:
                    findings += _unread(name)
    if not objects:
        raise _nothing(path, files)
    return FileFacts(str(path), "", total, None, tuple(objects), (*findings, *_bare(objects)))


def _nothing(path: Path, files: Sequence[Path]) -> InspectError:
    wheels = [file for file in files if file.suffix == ".whl"]
    return InspectError(
        f"there is nothing to inspect in this folder: {len(files)} file{'' if len(files) == 1 else 's'}, no binary",
        where=str(path),
        expected="a folder with ELF (.so, .o, .cubin), .fatbin, .ptx or .a files in it",
        remedy=f"name the wheels in it, {wheels[0]} for one" if wheels else "name another folder, or a wheel",
    )


def _wheel(path: Path, archive: Archive, asked: Asked, pool: ThreadPoolExecutor) -> FileFacts:
    """The cores have work with the members while this thread reads what the wheel says of itself."""
    with errands(pool, _reading(archive, asked, pool), cores()) as results:
        from builder.inspect.wheel import check_digest, describe

        facts, record, findings = describe(archive, path.name)
        read = [each for some in results() for each in some]
    wrong = (check_digest(record, each.member, each.digest) for each in read if each.digest)
    objects = sorted((found for each in read for found in each.objects or ()), key=lambda found: found.path)
    binaries = {each.member for each in read if each.objects is not None}
    findings = (*findings, *_no_elf(archive, binaries), *_bare(objects), *(finding for finding in wrong if finding))
    return FileFacts(
        str(path),
        "",
        len(archive.data),
        facts,
        tuple(objects),
        tuple(sorted(findings, key=lambda finding: (finding.rule, finding.where))),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """A member: the objects in it, None where it is no binary, and its sha256, empty at level "arch"."""

    member: Member
    objects: tuple[ObjectFacts, ...] | None
    digest: bytes


def _reading(archive: Archive, asked: Asked, pool: ThreadPoolExecutor) -> list[Errand[list[_Read]]]:
    """Large members one by one, the largest first: inflating one is work that cannot be shared, its images are."""
    members = sorted(archive.members, key=lambda member: -member.size)
    if asked.level == "arch":  # the rest need not be inflated
        members = [member for member in members if is_object(member.name, archive.head(member, HEAD))]
    alone = [[member] for member in members if member.size >= _LARGE]
    batches = [*alone, *_batches([member for member in members if member.size < _LARGE])]
    return [Errand(batch[0].size, partial(_members, archive, batch, asked, pool)) for batch in batches]


def _batches(members: Sequence[Member]) -> Iterator[Sequence[Member]]:
    for at in range(0, len(members), _BATCH):
        yield members[at : at + _BATCH]


def _members(
    archive: Archive, members: Sequence[Member], asked: Asked, pool: ThreadPoolExecutor, room: Room
) -> list[_Read]:
    return [_member(archive, member, archive.read(member, room), asked, pool) for member in members]


def _member(archive: Archive, member: Member, data: memoryview, asked: Asked, pool: ThreadPoolExecutor) -> _Read:
    def objects() -> tuple[ObjectFacts, ...]:
        return tuple(inspect_object(member.name, data, asked, f"{archive.where}!{member.name}"))

    if asked.level == "arch":
        return _Read(member, objects(), b"")
    if not is_object(member.name, bytes(data[:HEAD])):
        return _Read(member, None, sha256(data))
    return _Read(member, *beside(pool, objects, partial(sha256, data)))


def _no_elf(archive: Archive, binaries: Container[Member]) -> Iterator[Finding]:
    return (finding for member in archive.members if member not in binaries for finding in _unread(member.name))


def _unread(name: str) -> Iterator[Finding]:
    """What is no object and looks as if it held code."""
    if _SUFFIXED.search(name):
        yield Finding("binary", name, "it is named like a binary and is none", "build it again")
    if name.endswith(".whl"):
        yield Finding("binary", name, "a wheel among objects, which is not looked into", "name the wheel itself")


def _bare(objects: Iterable[ObjectFacts]) -> Iterator[Finding]:
    """Binaries that would otherwise look as if they had no code and needed nothing."""
    for found in objects:
        if found.elf.bare:
            yield Finding(
                "binary",
                found.path,
                "it has no sections, so nothing tells what code it holds and what it needs",
                "keep its section headers: no strip --strip-section-headers, no packer",
            )
