"""Facts as the versioned JSON document, and as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from builder.inspect.facts import CodeFacts, FileFacts, ObjectFacts, WheelFacts

VERSION = 1
_UNITS = ((1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB"))


def to_json(files: Iterable[FileFacts], *, details: bool = False) -> dict[str, Any]:
    """The `inspect --json` document, version 1, plain values only.

    At level "arch" what needs the code is null. `sizes` are a wheel's unpacked bytes by top folder or file, empty for
    other files. `details` adds what the contract does not promise: findings, and per object the names of the kernels
    that trap or do nothing.
    """
    return {"version": VERSION, "files": [_file(file, details=details) for file in files]}


def _file(file: FileFacts, *, details: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": file.path,
        "sha256": file.sha256,
        "size": file.size,
        "wheel": _wheel(file.wheel) if file.wheel else None,
        "sizes": dict(file.wheel.sizes) if file.wheel else {},
        "objects": [_object(found, details=details) for found in file.objects],
    }
    if details:
        document["findings"] = [
            {"rule": f.rule, "where": f.where, "message": f.message, "remedy": f.remedy} for f in file.findings
        ]
    return document


def _wheel(wheel: WheelFacts) -> dict[str, Any]:
    return {
        "name": wheel.name,
        "version": wheel.version,
        "tags": list(wheel.tags),
        "dist_info": wheel.dist_info,
        "glibc_tag": wheel.glibc_tag,
    }


def _object(found: ObjectFacts, *, details: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": found.path,
        "size": found.size,
        "machine": found.elf.machine,
        "needed": list(found.elf.needed),
        "rpath": list(found.elf.rpath),
        "glibc": found.elf.glibc,
        "glibcxx": found.elf.glibcxx,
        "cxxabi": found.elf.cxxabi,
        "undefined": list(found.elf.undefined),
        "code": [_code(code) for code in found.code],
        "devices": {
            device: {"native": facts.native, "jit": facts.jit, "none": facts.none}
            for device, facts in found.devices.items()
        },
    }
    if details:
        read = all(image.kernels is not None for image in found.images)
        document |= {
            "trap_only": [f"{k.kind} {k.arch} {k.name}" for k in found.kernels if k.trap_only] if read else None,
            "empty": [f"{k.kind} {k.arch} {k.name}" for k in found.kernels if k.empty] if read else None,
        }
    return document


def _code(code: CodeFacts) -> dict[str, Any]:
    return {
        "kind": code.kind,
        "arch": code.arch,
        "compression": code.compression,
        "images": code.images,
        "kernels": code.kernels,
        "trap_only": code.trap_only,
        "empty": code.empty,
        "instructions": code.instructions,
    }


def to_text(files: Iterable[FileFacts]) -> str:
    """The same for people: one block a file, one line per kind and architecture of code."""
    return "\n".join(line for file in files for line in _file_lines(file))


def _file_lines(file: FileFacts) -> Iterator[str]:
    yield f"{file.path}  ({human_size(file.size)}{f', sha256 {file.sha256}' if file.sha256 else ''})"
    if file.wheel:
        wheel = file.wheel
        glibc = f", glibc {wheel.glibc_tag} or newer" if wheel.glibc_tag else ""
        yield f"  {wheel.name} {wheel.version}, {', '.join(wheel.tags)}{glibc}"
        yield "  unpacked: " + ", ".join(f"{name} {human_size(count)}" for name, count in wheel.sizes.items())
    for found in file.objects:
        yield from _object_lines(found)
    for finding in file.findings:
        yield f"  ! {finding.rule}: {finding.where}: {finding.message}"


def _object_lines(found: ObjectFacts) -> Iterator[str]:
    glibc = f", glibc {found.elf.glibc}" if found.elf.glibc else ""
    yield f"  {found.path}  ({found.elf.machine}, {human_size(found.size)}{glibc})"
    if not found.code:
        yield "    no device code"
    for code in found.code:
        yield f"    {code.kind:4} {code.arch:9} {code.compression:4}  {_amounts(code)}"
    for device, facts in found.devices.items() if found.code else ():
        yield f"    on {device}: {facts.native} native, {facts.jit} compiled at load, {facts.none} not at all"


def _amounts(code: CodeFacts) -> str:
    parts = [_plural(code.images, "image")]
    if code.kernels is not None:
        parts.append(_plural(code.kernels, "kernel"))
    parts += [f"{count} {word}" for count, word in ((code.trap_only, "trap-only"), (code.empty, "empty")) if count]
    parts += [f"{count} {name}" for name, count in (code.instructions or {}).items() if count]
    return ", ".join(parts)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def human_size(count: int) -> str:
    """`812 B`, `3.4 kB`, in powers of 1000; builder.report is above this package, hence its own."""
    return next((f"{count / unit:.1f} {name}" for unit, name in _UNITS if count >= unit), f"{count} B")
