"""What the patches of a series promise (`Expects`), asked again of the wheel that was built from it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from builder.errors import WheelError
from builder.model import Package, PatchedTree
from builder.patches.load import load_series
from builder.patches.probe import Probe


@dataclass(frozen=True, slots=True)
class Promise:
    """A probe and the patch that made it."""

    file: str
    probe: Probe


def promises(package: Package, root: Path, patched: PatchedTree | None = None) -> tuple[Promise, ...]:
    """The promises of a package's patches; with the patched tree, of those that were really applied."""
    applied = None if patched is None else {p.file for p in patched.applied if p.state in {"clean", "offset"}}
    return tuple(
        Promise(patch.file, probe)
        for patch in load_series(package, root)
        if applied is None or patch.file in applied
        for probe in patch.header.expects
    )


def broken_promises(wanted: Iterable[Promise], wheel: Path) -> tuple[Promise, ...]:
    """Promises about packaged files that are not true in the wheel.

    Files of folders that no wheel carries (`csrc/`, `cmake/`, the build's own files) were asked on
    the tree and are passed over. Raises WheelError when the wheel cannot be read.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            tops = {name.partition("/")[0] for name in names if "/" in name}
            mine = [item for item in wanted if "/" in item.probe.path and item.probe.path.partition("/")[0] in tops]
            return tuple(
                item
                for item in mine
                if not item.probe.holds(lambda path: archive.read(path) if path in names else None)
            )
    except (OSError, zipfile.BadZipFile) as error:
        raise WheelError(f"{wheel.name} cannot be read: {error}", where=str(wheel), remedy="build it again") from error
