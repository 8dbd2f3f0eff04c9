"""Rules over the papers inside a wheel: its build record, and the bill of materials that must say the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from builder.errors import WheelError
from builder.inspect.facts import FileFacts, WheelFacts
from builder.inspect.record import record_lines, sha256_in
from builder.supply import RECORD_NAME, SBOM_NAME, facts_in, facts_of, read_record
from builder.verify.rules import Fault
from builder.verify.versions import same
from builder.verify.wheelrules import Contents

_AGAIN = "build the wheel again; never edit one"


def paper_faults(file: FileFacts, contents: Contents) -> Iterator[Fault]:
    """What record, SBOM and wheel contradict of one another. A wheel without a build record is not ours: nothing."""
    if file.wheel is None:
        return
    name = f"{file.wheel.dist_info}/{RECORD_NAME}"
    data = contents.read(name)
    if data is None:
        return
    try:
        record = read_record(data, name)
    except WheelError as error:
        yield Fault("build-record", name, f"{error.what}: {error.expected}", _AGAIN)
        return
    yield from _identity(file.wheel, record, name)
    yield from _taken(record, contents, f"{file.wheel.dist_info}/RECORD")
    yield from _sbom(record, contents, f"{file.wheel.dist_info}/{SBOM_NAME}")


def _identity(wheel: WheelFacts, record: Mapping[str, Any], where: str) -> Iterator[Fault]:
    said = record["package"]
    named = canonicalize_name(said["name"]) == canonicalize_name(wheel.name)
    if not named or not same(said["version"], wheel.version):
        message = f"it is of {said['name']} {said['version']}, the wheel is {wheel.name} {wheel.version}"
        yield Fault("build-record", where, message, _AGAIN)


def _taken(record: Mapping[str, Any], contents: Contents, listed: str) -> Iterator[Fault]:
    """Files that the record says come from the official wheel are the very files.

    By RECORD's digests: that these are the files' own is a rule of its own, and hashing them again takes long.
    """
    taken = (record["prebuilt"] or {}).get("taken", {})
    lines = record_lines((contents.read(listed) or b"").decode(errors="replace")) if taken else {}
    for path, digest in sorted(taken.items()):
        said = sha256_in(lines.get(path, ("", ""))[0]) or "that is not in RECORD"
        found = f"sha256 {said}" if path in contents.names else "no such file"
        if found != f"sha256 {digest}":
            message = f"the record took it from the official wheel with sha256 {digest}; here is {found}"
            yield Fault("build-record", path, message, _AGAIN)


def _sbom(record: Mapping[str, Any], contents: Contents, where: str) -> Iterator[Fault]:
    data = contents.read(where)
    if data is None:
        yield Fault("sbom", where, "the wheel has a build record and no bill of materials", _AGAIN)
        return
    try:
        said, wanted = facts_in(data), facts_of(record)
    except ValueError as error:
        yield Fault("sbom", where, f"it cannot be read: {error}", _AGAIN)
        return
    for name in sorted(said.keys() | wanted.keys()):
        if said.get(name) != wanted.get(name):
            message = f"{name}: it says {said.get(name, 'nothing')}, the build record {wanted.get(name, 'nothing')}"
            yield Fault("sbom", where, message, _AGAIN)
