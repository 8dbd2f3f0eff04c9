"""A wheel, a binary or a folder, read on all cores."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from builder.errors import InspectError
from builder.inspect.facts import FileFacts, Level, ObjectFacts
from builder.inspect.objects import HEAD, Asked, inspect_object, is_object
from builder.inspect.room import Errand, Room, errands
from builder.inspect.work import beside, cores, mapped, sha256, share, workers
from builder.inspect.zips import Archive, Member, open_archive
from builder.model import Finding

_SUFFIXED = re.compile(r"\.(?:so(?:\.[\d.]+)?|o|a|cubin|fatbin|ptx)$")
_BATCH = 256


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
    objects: list[ObjectFacts] = []
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
    if not objects:
        raise _nothing(path, files)
    return FileFacts(str(path), "", total, None, tuple(objects), tuple(_bare(objects)))


def _nothing(path: Path, files: Sequence[Path]) -> InspectError:
    wheels = [file for file in files if file.suffix == ".whl"]
    return InspectError(
        f"there is nothing to inspect in this folder: {len(files)} file{'' if len(files) == 1 else 's'}, no binary",
        where=str(path),
        expected="a folder with ELF (.so, .o, .cubin), .fatbin, .ptx or .a files in it",
        remedy=f"name the wheels in it, {wheels[0]} for one" if wheels else "name another folder, or a wheel",
    )


def _wheel(path: Path, archive: Archive, asked: Asked, pool: ThreadPoolExecutor) -> FileFacts:
    """Large binaries go first: the cores have work with them while this thread reads the texts."""
    heads = ((member, archive.head(member, HEAD)) for member in archive.members)
    binaries = {member for member, head in heads if is_object(member.name, head)}
    with errands(pool, _reading(archive, binaries, asked, pool), cores()) as results:
        from builder.inspect.wheel import check_digest, describe

        facts, record, findings = describe(archive, path.name)
        read = results()
    wrong = (check_digest(record, member, digest) for each in read for member, digest in each.digests.items())
    objects = sorted((found for each in read for found in each.objects), key=lambda found: found.path)
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
    """What members hold, and their sha256; none of it at level "arch"."""

    objects: tuple[ObjectFacts, ...]
    digests: dict[Member, bytes]


def _reading(
    archive: Archive, binaries: Container[Member], asked: Asked, pool: ThreadPoolExecutor
) -> list[Errand[_Read]]:
    """The binaries one by one, those first that take longest, and all else in batches."""
    ordered = sorted(archive.members, key=lambda member: -member.packed)
    alone = [member for member in ordered if member in binaries]
    rest = [member for member in archive.members if member not in binaries] if asked.level != "arch" else []
    return [
        *(Errand(member.size, partial(_binary, archive, member, asked, pool)) for member in alone),
        *(Errand(max(member.size for member in batch), partial(_texts, archive, batch)) for batch in _batches(rest)),
    ]


def _batches(members: Sequence[Member]) -> Iterator[Sequence[Member]]:
    for at in range(0, len(members), _BATCH):
        yield members[at : at + _BATCH]


def _binary(archive: Archive, member: Member, asked: Asked, pool: ThreadPoolExecutor, room: Room) -> _Read:
    data = archive.read(member, room)

    def objects() -> tuple[ObjectFacts, ...]:
        return tuple(inspect_object(member.name, data, asked, f"{archive.where}!{member.name}"))

    if asked.level == "arch":
        return _Read(objects(), {})
    found, digest = beside(pool, objects, partial(sha256, data))
    return _Read(found, {member: digest})


def _texts(archive: Archive, members: Sequence[Member], room: Room) -> _Read:
    return _Read((), {member: sha256(archive.read(member, room)) for member in members})


def _no_elf(archive: Archive, binaries: Container[Member]) -> Iterator[Finding]:
    for member in archive.members:
        if _SUFFIXED.search(member.name) and member not in binaries:
            yield Finding("binary", member.name, "it is named like a binary and is none", "build the wheel again")


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
