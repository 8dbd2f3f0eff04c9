"""Wheels, written so that the same parts give the same bytes on any day and machine.

The libraries that write wheels take times and modes from the files they find; here order, times
and modes are decided: names sorted, dist-info last with RECORD at the end, one fixed date.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from builder.compile.zipwrite import Packed, pack, pool, write_zip


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a wheel: its name there, its bytes (or how to get them), its permission bits."""

    name: str
    data: bytes | Callable[[], bytes]
    mode: int = 0o644

    def read(self) -> bytes:
        """The bytes."""
        return self.data() if callable(self.data) else self.data


def write_wheel(path: Path, parts: Iterable[Part | Packed], dist_info: str) -> Path:
    """Write the wheel whole or not at all. RECORD is made here; a part of that name is refused."""
    ordered = sorted(parts, key=lambda part: (part.name.startswith(dist_info), part.name))
    path.parent.mkdir(parents=True, exist_ok=True)
    with pool() as threads:
        members = list(threads.map(_packed, ordered))
    record = f"{dist_info}/RECORD"
    members.append(pack(record, _record([*map(_row, members), (record, "", "")]), 0o644))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".wheel-")
    try:
        with os.fdopen(handle, "wb") as stream:
            write_zip(stream, members)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def new_wheel(
    folder: Path, *, name: str, version: str, tag: str, parts: Sequence[Part], requires: Sequence[str], summary: str
) -> Path:
    """A wheel from nothing: METADATA and WHEEL are made here. Returns its path in `folder`."""
    escaped = canonicalize_name(name).replace("-", "_")
    dist_info = f"{escaped}-{version}.dist-info"
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {summary}",
        "Requires-Python: >=3.10",
        *(f"Requires-Dist: {line}" for line in requires),
    ]
    own = [
        Part(f"{dist_info}/METADATA", "\n".join([*metadata, ""]).encode()),
        Part(f"{dist_info}/WHEEL", wheel_text([tag]).encode()),
    ]
    return write_wheel(folder / f"{escaped}-{version}-{tag}.whl", [*parts, *own], dist_info)


def wheel_text(tags: Iterable[str]) -> str:
    """The WHEEL file of a wheel with these tags; code inside makes it no purelib."""
    lines = [f"Tag: {tag}" for tag in sorted(tags)]
    pure = all(tag.endswith("-any") for tag in tags)
    return "\n".join(
        ["Wheel-Version: 1.0", "Generator: spark-wheels", f"Root-Is-Purelib: {str(pure).lower()}", *lines, ""]
    )


def _packed(part: Part | Packed) -> Packed:
    return part if isinstance(part, Packed) else pack(part.name, part.read(), part.mode)


def _row(member: Packed) -> tuple[str, str, str]:
    digest = base64.urlsafe_b64encode(member.sha256).rstrip(b"=").decode()
    return member.name, f"sha256={digest}", str(member.size)


def _record(rows: Iterable[tuple[str, str, str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
