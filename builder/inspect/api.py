"""`inspect_path`: a wheel, a binary or a folder, mapped and read on all cores."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from builder.errors import BuilderError, InspectError
from builder.inspect import wheel as wheels
from builder.inspect.devices import capability
from builder.inspect.facts import FileFacts, ObjectFacts
from builder.inspect.objects import HEAD, Asked, Level, inspect_object, is_object
from builder.inspect.zips import Archive, Member, open_archive
from builder.model import Finding

_SUFFIXED = re.compile(r"\.(?:so(?:\.[\d.]+)?|o|a|cubin|fatbin|ptx)$")
_BATCH = 256


def inspect_path(path: Path, *, level: Level = "sass", devices: tuple[str, ...] = ("12.1",)) -> FileFacts:
    """Facts of one path.

    `level` "arch" reads headers only (kernels and instructions stay unknown, None), "sass" every instruction, "all"
    the text of PTX besides that has machine code of its own.
    `devices` are compute capabilities. A folder is read as the objects in it. Raises InspectError when something
    cannot be read as what it claims to be, UsageError for a device that is none.
    """
    for device in devices:
        capability(device)
    try:
        if path.is_dir():
            return _folder(path, level, devices)
        with _mapped(path) as data:
            return _file(path, data, level, devices)
    except OSError as error:
        raise InspectError(f"cannot read it: {error.strerror}", where=str(path), expected="a readable file") from error
    except BuilderError:
        raise
    except (ValueError, LookupError, ArithmeticError, MemoryError, RecursionError, struct.error) as error:
        raise InspectError(
            f"it cannot be read ({type(error).__name__}: {error})",
            where=str(path),
            expected="a whole file",
            remedy="fetch or build it again; report it if it is whole",
        ) from error


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with path.open("rb") as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        area = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        yield memoryview(area)  # unmapped when the last view of it goes


def _file(path: Path, data: memoryview, level: Level, devices: tuple[str, ...]) -> FileFacts:
    with _Workers() as workers:
        digest = workers.outer.submit(lambda: hashlib.sha256(data).hexdigest())
        asked = Asked(level, devices, workers.inner.map)
        if path.suffix == ".whl":
            facts = _wheel(path, open_archive(data, str(path)), asked, workers)
        elif is_object(path.name, bytes(data[:HEAD])):
            facts = FileFacts(str(path), "", 0, None, tuple(inspect_object(path.name, data, asked, str(path))))
        else:
            raise InspectError(
                "this is neither a wheel nor a binary with device code",
                where=str(path),
                expected=".whl, ELF (.so, .o, .cubin), .fatbin, .ptx or .a",
                remedy="name another file",
            )
        return FileFacts(facts.path, digest.result(), len(data), facts.wheel, facts.objects, facts.findings)


def _folder(path: Path, level: Level, devices: tuple[str, ...]) -> FileFacts:
    objects: list[ObjectFacts] = []
    total = 0
    with _Workers() as workers:
        asked = Asked(level, devices, workers.inner.map)
        for file in sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink()):
            with _mapped(file) as data:
                total += len(data)
                name = file.relative_to(path).as_posix()
                if is_object(name, bytes(data[:HEAD])):
                    objects += inspect_object(name, data, asked, str(file))
    return FileFacts(str(path), "", total, None, tuple(objects))


@dataclass(frozen=True, slots=True)
class _Workers:
    """Two pools: files wait in the outer for their images in the inner, so neither can starve the other."""

    outer: ThreadPoolExecutor
    inner: ThreadPoolExecutor

    def __init__(self) -> None:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        object.__setattr__(self, "outer", ThreadPoolExecutor(count))
        object.__setattr__(self, "inner", ThreadPoolExecutor(count))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pool in (self.outer, self.inner):
            pool.shutdown(wait=True, cancel_futures=True)


def _wheel(path: Path, archive: Archive, asked: Asked, workers: _Workers) -> FileFacts:
    facts, record, findings = wheels.describe(archive, path.name)
    binaries = {m.name: m for m in archive.members if is_object(m.name, archive.head(m, HEAD))}
    large_first = sorted(binaries.values(), key=lambda m: -m.packed)
    checks = record if asked.level != "arch" else wheels.Record({}, record.path)
    work: list[Future[tuple[list[ObjectFacts], list[Finding]]]] = [
        workers.outer.submit(_binary, archive, member, checks, asked) for member in large_first
    ]
    if asked.level != "arch":
        rest = [m for m in archive.members if m.name not in binaries]
        work += [workers.outer.submit(_digests, archive, batch, checks) for batch in _batches(rest)]
    results = [future.result() for future in work]
    objects = sorted((o for found, _ in results for o in found), key=lambda o: o.path)
    found = [*findings, *_no_elf(archive, binaries), *(f for _, more in results for f in more)]
    return FileFacts(str(path), "", 0, facts, tuple(objects), tuple(sorted(found, key=lambda f: (f.rule, f.where))))


def _binary(
    archive: Archive, member: Member, record: wheels.Record, asked: Asked
) -> tuple[list[ObjectFacts], list[Finding]]:
    data = archive.read(member)
    objects = list(inspect_object(member.name, data, asked, f"{archive.where}!{member.name}"))
    finding = wheels.check_digest(record, member, data)
    return objects, [finding] if finding else []


def _digests(
    archive: Archive, members: Sequence[Member], record: wheels.Record
) -> tuple[list[ObjectFacts], list[Finding]]:
    found = (wheels.check_digest(record, member, archive.read(member)) for member in members)
    return [], [finding for finding in found if finding]


def _batches(members: Sequence[Member]) -> Iterator[Sequence[Member]]:
    for start in range(0, len(members), _BATCH):
        yield members[start : start + _BATCH]


def _no_elf(archive: Archive, binaries: dict[str, Member]) -> Iterator[Finding]:
    for member in archive.members:
        if _SUFFIXED.search(member.name) and member.name not in binaries and member.size:
            yield Finding("binary", member.name, "it is named like a binary and is none", "build the wheel again")
