"""One binary, bytes in, facts out: host ELF with fatbins, bare cubin, fatbin, PTX text, static archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from builder.errors import InspectError
from builder.inspect import elf, fatbin, ptx, sass
from builder.inspect.carried import carried
from builder.inspect.devices import all_devices, number
from builder.inspect.facts import (
    CLASSES,
    NO_COUNTS,
    CodeFacts,
    Counts,
    ElfFacts,
    ImageFacts,
    KernelFacts,
    Level,
    ObjectFacts,
)

_SLACK, _RATIO = 1 << 24, 64
"""An object's images unpack to so many bytes and so many times their size at most; real ones to 30 times."""

Mapper = Callable[[Callable[[int], ImageFacts], Iterable[int]], Iterable[ImageFacts]]
"""`map`, or one that lets several threads at the work."""

HEAD = 64
"""Bytes from a file's start that `is_object` wants."""

_AR = b"!<arch>\n"
_PTX_NAME = re.compile(r"\.ptx$")
_NOTED = 8
"""The first ABI whose flags have the architecture in their second byte; ptxas leaves its note from there on."""

_TOOL_ARCH = re.compile(rb"-arch(?:=|\s+)sm_(\d+[af]?)\b")


def is_object(name: str, head: bytes) -> bool:
    """True for a file that `inspect_object` reads, by its first bytes."""
    magics = (elf.MAGIC, fatbin.MAGIC_BYTES, _AR)
    return head.startswith(magics) or (_PTX_NAME.search(name) is not None and b"\n" in head)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of every object."""

    level: Level
    devices: tuple[str, ...]
    spread: Mapper = map
    room: fatbin.Unpacker = field(default_factory=fatbin.Unpacker)


def inspect_object(name: str, data: memoryview, asked: Asked, where: str = "") -> Iterator[ObjectFacts]:
    """Facts of one file; a static archive yields one record per member, as `lib.a(member.o)`.

    Raises InspectError where the bytes are damaged.
    """
    where = where or name
    head = bytes(data[:HEAD])
    if head.startswith(_AR):
        for member, body in _archive(data, where):
            if is_object(member, bytes(body[:HEAD])) and bytes(body[:8]) != _AR:
                yield from inspect_object(f"{name}({member})", body, asked, f"{where}({member})")
        return
    link, entries = _open(data, head, where)
    wanted = [entry for entry in entries if entry.kind in {"sass", "ptx"}]
    images = _images(wanted, asked, where)
    devices = dict(all_devices(images, asked.devices)) if asked.level != "arch" else {}
    yield ObjectFacts(name, len(data), link, images, tuple(_code(images)), devices)


def _open(data: memoryview, head: bytes, where: str) -> tuple[ElfFacts, Iterable[fatbin.Entry]]:
    """Link facts and code entries of whatever the file is."""
    if head.startswith(fatbin.MAGIC_BYTES):
        return ElfFacts(machine="cuda"), fatbin.entries(data, where)
    if not head.startswith(elf.MAGIC):
        said = ptx.header(data, where)
        return ElfFacts(machine="cuda"), [_alone("ptx", said.target, said.version, data)]
    if len(head) >= 20 and head[4:6] != b"\2\1":
        return ElfFacts(machine=_other_machine(head)), ()
    host = elf.parse(data, where)
    if host.machine == elf.EM_CUDA:
        return elf.link_facts(host), [_cubin(host)]
    return elf.link_facts(host), _host_entries(host, where)


def _alone(kind: str, arch: str, version: str, data: memoryview, container: int = 0) -> fatbin.Entry:
    return fatbin.Entry(kind, arch, version, "none", container, 0, len(data), len(data), data)


def _cubin(cubin: elf.Elf, container: int = 0) -> fatbin.Entry:
    return _alone("sass", cubin_arch(cubin), str(cubin.abi_version), cubin.data, container)


def _other_machine(head: bytes) -> str:
    order: Literal["little", "big"] = "big" if head[5] == 2 else "little"
    width = 32 if head[4] == 1 else 64
    return f"{elf.machine_name(int.from_bytes(head[18:20], order))} ({width}-bit, {order}-endian)"


def _host_entries(host: elf.Elf, where: str) -> Iterator[fatbin.Entry]:
    """Every entry of every fatbin section, and of what else it carries, containers numbered through."""
    last = -1
    for part in (*elf.fatbin_sections(host), *carried(host)):
        cubin = bytes(part[:4]) == elf.MAGIC
        found = [_cubin(elf.parse(part, where), last + 1)] if cubin else fatbin.entries(part, where, last + 1)
        for entry in found:
            last = entry.container
            yield entry


def cubin_arch(cubin: elf.Elf) -> str:
    """`sm_120f` of a bare cubin: its number from the ELF flags, its suffix from the note that ptxas leaves.

    CUDA 12 leaves no such note; the accelerator bit of its flags stands for the a suffix.
    """
    old_accelerated = cubin.abi_version < _NOTED and cubin.flags & 0x800
    return next(iter(_noted(cubin)), f"sm_{_base(cubin)}{'a' if old_accelerated else ''}")


def _base(cubin: elf.Elf) -> int:
    """The architecture's number in the flags."""
    return cubin.flags & 0xFF if cubin.abi_version < _NOTED else cubin.flags >> 8 & 0xFF


def _noted(cubin: elf.Elf) -> list[str]:
    """The exact architectures in notes that fit the flags: one, or none where no tool left a note."""
    base = _base(cubin)
    notes = (cubin.body(index) for index in cubin.all_of_type(elf.NOTE))
    said = {match.decode() for note in notes for match in _TOOL_ARCH.findall(bytes(note))}
    return sorted((f"sm_{arch}" for arch in said if number(arch) == base), reverse=True)


def _images(entries: list[fatbin.Entry], asked: Asked, where: str) -> tuple[ImageFacts, ...]:
    if asked.level == "arch":
        return tuple(_unread(entry) for entry in entries)
    _check_flood(entries, where)
    code = {(entry.container, entry.arch) for entry in entries if entry.kind == "sass" and asked.level != "all"}
    twins = [entry.kind == "ptx" and (entry.container, entry.arch) in code for entry in entries]
    own = [entry for entry, twin in zip(entries, twins, strict=True) if not twin]
    large_first = sorted(range(len(own)), key=lambda index: -own[index].plain)  # a room then grows but once
    read = asked.spread(lambda index: _image(own[index], where, asked.room), large_first)
    by_index = dict(zip(large_first, read, strict=True))
    found = iter([by_index[index] for index in range(len(own))])
    images = [None if twin else next(found) for twin in twins]
    known = {(image.container, image.arch): image for image in images if image is not None and image.kind == "sass"}
    return tuple(image or _twin(entry, known) for entry, image in zip(entries, images, strict=True))


def _check_flood(entries: list[fatbin.Entry], where: str) -> None:
    """Each image has a bound of its own, which is too wide for very many of them."""
    size, plain = sum(entry.size for entry in entries), sum(entry.plain for entry in entries)
    if plain > _SLACK + _RATIO * size:
        raise InspectError(
            f"it claims to unpack from {size} B in {len(entries)} images to {plain} B",
            where=where,
            expected=f"at most {_RATIO} times their size",
            remedy="the file is damaged, or made to fill memory: fetch or build it again",
        )


def _twin(entry: fatbin.Entry, known: dict[tuple[int, str], ImageFacts]) -> ImageFacts:
    code = known[entry.container, entry.arch]
    kernels = tuple(replace(kernel, kind="ptx") for kernel in code.kernels or ())
    return replace(_unread(entry), kernels=kernels, functions=code.functions)


def _unread(entry: fatbin.Entry) -> ImageFacts:
    return ImageFacts(entry.kind, entry.arch, entry.version, entry.compression, entry.container, entry.size)


def _image(entry: fatbin.Entry, where: str, room: fatbin.Unpacker) -> ImageFacts:
    data = fatbin.unpack(entry, where, room)
    where = f"{where}, {entry.arch} image at byte {entry.offset}"
    scans = list(ptx.scan(bytes(data), where) if entry.kind == "ptx" else _scan_sass(entry, data, where))
    kernels = tuple(
        KernelFacts(name, entry.kind, entry.arch, entry.container, found.counts, found.trap_only, found.empty)
        for name, found in scans
        if name is not None
    )
    return replace(
        _unread(entry), kernels=kernels, functions=_sum(found.counts for name, found in scans if name is None)
    )


def _scan_sass(
    entry: fatbin.Entry, data: bytes | memoryview, where: str
) -> Iterator[tuple[str | None, sass.KernelScan]]:
    cubin = elf.parse(memoryview(data), where)
    if cubin.machine != elf.EM_CUDA or cubin.bare:
        raise InspectError(
            "an entry for machine code is no cubin, or one without sections",
            where=where,
            remedy="fetch or build it again",
        )
    _agree(entry.arch, cubin, where)
    sections = elf.code_sections(cubin)
    prints = elf.lacks_only(cubin, b"vprintf")  # so that what is called by its address is that
    return zip(sections.names, sass.scan(data, sections, number(entry.arch), where, prints=prints), strict=True)


def _agree(arch: str, cubin: elf.Elf, where: str) -> None:
    """The driver chooses by the entry's header and loads by the cubin: facts of the one must hold for the other.

    Where no note tells the suffix, the numbers alone must agree.
    """
    base, noted = _base(cubin), _noted(cubin)
    if arch not in noted if noted else number(arch) != base:
        raise InspectError(
            f"its entry is for {arch}, the cubin in it for {' or '.join(noted) or f'sm_{base}'}",
            where=where,
            expected="one architecture in both, as nvcc writes them",
            remedy="somebody changed one of them: build the file again",
        )


def _sum(counts: Iterable[Counts]) -> Counts:
    return tuple(sum(column) for column in zip(NO_COUNTS, *counts, strict=True))


def _code(images: Iterable[ImageFacts]) -> Iterator[CodeFacts]:
    groups: dict[tuple[str, str, str], list[ImageFacts]] = {}
    for image in images:
        groups.setdefault((image.arch, image.kind, image.compression), []).append(image)
    for (arch, kind, compression), group in sorted(groups.items()):
        kernels = [kernel for image in group for kernel in image.kernels or ()]
        known = all(image.kernels is not None for image in group)
        sums = _sum([*(kernel.counts for kernel in kernels), *(image.functions for image in group)])
        yield CodeFacts(
            kind,
            arch,
            compression,
            images=len(group),
            kernels=len(kernels) if known else None,
            trap_only=sum(kernel.trap_only for kernel in kernels) if known else None,
            empty=sum(kernel.empty for kernel in kernels) if known else None,
            instructions=dict(zip(CLASSES, sums, strict=True)) if known else None,
        )


def _archive(data: memoryview, where: str) -> Iterator[tuple[str, memoryview]]:
    """Members of a static archive, with names as System V, GNU or BSD have them."""
    at, long_names = 8, b""
    while at < len(data):
        header = bytes(data[at : at + 60])
        size = int(header[48:58]) if header[48:58].strip().isdigit() else -1
        if header[58:] != b"`\n" or size < 0 or at + 60 + size > len(data):
            raise InspectError(
                f"an archive member is cut short, at byte {at}", where=where, remedy="fetch or build it again"
            )
        body, name = data[at + 60 : at + 60 + size], header[:16].rstrip()
        if name.startswith(b"#1/") and name[3:].isdigit():  # as BSD writes it: the name comes first in the body
            length = int(name[3:])
            name, body = bytes(body[:length]).rstrip(b"\0"), body[length:]
        if name == b"//":
            long_names = bytes(body)
        elif name not in {b"/", b"/SYM64/"}:
            yield _member_name(name, long_names), body
        at += 60 + size + size % 2


def _member_name(name: bytes, long_names: bytes) -> str:
    if name[:1] == b"/" and name[1:].isdigit():
        start = int(name[1:])
        name = long_names[start : start + 4096].split(b"\n", 1)[0]
    return name.rstrip(b"/").decode(errors="replace")
