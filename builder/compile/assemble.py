"""From upstream's raw wheel to ours: stripped, completed, tagged by its symbols, with its record."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from packaging.utils import parse_wheel_filename

from builder.compile.finish import Finisher
from builder.compile.host import Compilers
from builder.compile.metadata import edited
from builder.compile.tags import platform_tag
from builder.compile.wheelfile import Part, wheel_text, write_wheel
from builder.compile.zipwrite import Packed, pool
from builder.context import Context
from builder.errors import WheelError
from builder.model import Prebuilt, Wheel
from builder.store import sha256_of
from builder.supply import RECORD_NAME, SBOM_NAME, sbom


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make of a raw wheel."""

    version: str
    machine: str
    pins: Mapping[str, str]
    requires: tuple[str, ...]
    record: Mapping[str, object]
    prebuilt: Prebuilt | None = None
    prebuilt_wheel: Path | None = None


def assemble(raw: Path, out: Path, plan: Plan, compilers: Compilers, context: Context) -> Wheel:
    """Write the final wheel into `out`. Raises WheelError; the raw wheel is left as it is."""
    name, _, _, tags = parse_wheel_filename(raw.name)
    escaped = raw.name.partition("-")[0]
    with zipfile.ZipFile(raw) as archive, tempfile.TemporaryDirectory() as scratch:
        old_info = _dist_info(archive.namelist(), raw)
        new_info = f"{escaped}-{plan.version}.dist-info"
        finisher = Finisher(Path(scratch), compilers, context)
        parts = {part.name: part for part in _payload(archive, old_info, finisher)}
        taken = {part.name: part for part in _prebuilt(plan, parts, finisher)}
        parts |= taken
        objects = {path: finisher.needs(path, part) for path, part in parts.items() if isinstance(part, Packed)}
        platform = platform_tag(objects, plan.machine) if objects else "any"
        tag = _tag(tags, platform)
        record = _completed(plan.record, taken)
        info = _info_parts(archive, old_info, new_info, tag, plan, record)
        path = out / f"{escaped}-{plan.version}-{tag}.whl"
        write_wheel(path, [*parts.values(), *info], new_info)
    return Wheel(path, sha256_of(path), path.stat().st_size, str(name), plan.version, tag)


def _dist_info(names: Iterable[str], raw: Path) -> str:
    found = sorted({name.split("/", 1)[0] for name in names if name.split("/", 1)[0].endswith(".dist-info")})
    if len(found) != 1:
        raise WheelError(
            f"{len(found)} dist-info folders", where=str(raw), expected="one", remedy="look at the build's log"
        )
    return found[0]


def _payload(archive: zipfile.ZipFile, dist_info: str, finisher: Finisher) -> Iterable[Part | Packed]:
    """Every file but those of dist-info; objects are finished, several at once."""
    own = f"{dist_info}/"
    infos = [info for info in archive.infolist() if not info.is_dir() and not info.filename.startswith(own)]
    objects = sorted(info.filename for info in infos if info.filename.endswith(".so"))
    with pool() as threads:
        yield from threads.map(lambda name: finisher.finished(name, archive.read(name)), objects)
    for info in infos:
        if not info.filename.endswith(".so"):
            mode = 0o755 if (info.external_attr >> 16) & 0o100 else 0o644
            yield Part(info.filename, partial(archive.read, info), mode)


def _prebuilt(plan: Plan, built: Mapping[str, Part | Packed], finisher: Finisher) -> Iterable[Part | Packed]:
    """Files of the official wheel that the recipe takes over, as they are; what we built stays."""
    if plan.prebuilt is None or plan.prebuilt_wheel is None:
        return
    archive = zipfile.ZipFile(plan.prebuilt_wheel)
    for pattern in plan.prebuilt.files:
        names = [name for name in archive.namelist() if fnmatch(name, pattern)]
        if not names:
            raise WheelError(
                f"no file matches {pattern}",
                where=plan.prebuilt.wheel,
                expected="each of the recipe's prebuilt patterns matches a file",
                remedy="correct the pattern in the recipe",
            )
        for name in names:
            if name not in built:
                whole = name.endswith(".so")
                read = partial(archive.read, name)
                yield finisher.packed(name, plan.prebuilt.sha256, read) if whole else Part(name, read)


def _completed(record: Mapping[str, object], taken: Mapping[str, Part | Packed]) -> dict[str, object]:
    """The record with the digest of each file that came out of the official wheel."""
    prebuilt = record["prebuilt"]
    if not isinstance(prebuilt, dict):
        return dict(record)
    digests = {name: _sha256(part).hex() for name, part in sorted(taken.items())}
    return {**record, "prebuilt": {**prebuilt, "taken": digests}}


def _sha256(part: Part | Packed) -> bytes:
    return part.sha256 if isinstance(part, Packed) else hashlib.sha256(part.read()).digest()


def _tag(tags: Iterable[object], platform: str) -> str:
    heads = {str(tag).rsplit("-", 1)[0] for tag in tags}
    return f"{'.'.join(sorted(heads))}-{platform}"


def _info_parts(
    archive: zipfile.ZipFile, old: str, new: str, tag: str, plan: Plan, record: Mapping[str, object]
) -> Sequence[Part]:
    made = {"METADATA", "WHEEL", "RECORD", RECORD_NAME, SBOM_NAME}
    kept = [
        Part(f"{new}/{name.removeprefix(f'{old}/')}", archive.read(name))
        for name in archive.namelist()
        if name.startswith(f"{old}/") and not name.endswith("/") and name.removeprefix(f"{old}/") not in made
    ]
    metadata = edited(
        archive.read(f"{old}/METADATA").decode(), version=plan.version, pins=plan.pins, requires=plan.requires
    )
    said = json.dumps(record, sort_keys=True, indent=1)
    return [
        *kept,
        Part(f"{new}/METADATA", metadata.encode()),
        Part(f"{new}/WHEEL", wheel_text([tag]).encode()),
        Part(f"{new}/{RECORD_NAME}", f"{said}\n".encode()),
        Part(f"{new}/{SBOM_NAME}", sbom(json.loads(said))),
    ]
