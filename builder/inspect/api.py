"""`inspect_path`: facts of a wheel, a binary or a folder."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from builder.errors import BuilderError, InspectError
from builder.inspect.devices import capability
from builder.inspect.facts import FileFacts, Level
from builder.inspect.work import load_numpy, mapped, sha256, workers


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
        return _read(path, level, devices)
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


def _read(path: Path, level: Level, devices: tuple[str, ...]) -> FileFacts:
    """The readers are imported late: with numpy that takes as long as half the digest, which is under way then."""
    if path.is_dir():
        load_numpy()
        from builder.inspect.files import read_folder

        return read_folder(path, level, devices)
    with mapped(path) as data, workers() as pool:
        digest = pool.submit(sha256, data)
        load_numpy()
        from builder.inspect.files import read_file

        facts = read_file(path, data, level, devices, pool)
        return replace(facts, sha256=digest.result().hex())
