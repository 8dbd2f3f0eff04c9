"""Where the files of a wheel land when it is installed into the image, and with which bytes.

RECORD's own lines say it for most. What an installer changes (scripts, and what entry points ask for) is
made here by the same library that installs, so that nothing in the image vouches for itself.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from builder.errors import WheelError
from builder.verify.image.places import PREFIX, Python

Lines = Mapping[str, tuple[str, str]]
"""Path, relative to site-packages → (`sha256=…` or empty, size or empty), as in RECORD."""

_INTERPRETER: Final = f"{PREFIX}/bin/python3"
_UP: Final = "../../.."
_SIGNATURE = re.compile(r"[^/]+\.dist-info/RECORD(?:\.jws|\.p7s)?")
_PTXAS: Final = "/bin/ptxas"


def landed(archive: zipfile.ZipFile, lines: Lines, project: str, python: Python) -> Lines:
    """The lines as an installer leaves them: every file with a digest, `.data` folders and scripts in their places."""
    found = dict(_entry_points(archive, lines))
    for path, line in lines.items():
        if "__pycache__" in path.split("/")[:-1]:
            continue  # bytecode that a wheel brings along is not installed
        target, script = _target(path, project, python)
        if script or not (line[0] or _SIGNATURE.fullmatch(path)):
            data = archive.read(path)
            found[target] = _line(_script(data) if script else data)
        else:
            found[target] = line
    return found


def _target(path: str, project: str, python: Python) -> tuple[str, bool]:
    """Its place relative to site-packages, and whether it is a script."""
    folder, _, rest = path.partition("/")
    if not folder.endswith(".data"):
        return path, False
    scheme, _, inside = rest.partition("/")
    headers = f"{_UP}{python.headers.removeprefix(PREFIX)}/{project}"
    places = {"purelib": "", "platlib": "", "data": f"{_UP}/", "scripts": f"{_UP}/bin/", "headers": f"{headers}/"}
    return f"{places.get(scheme, f'{folder}/{scheme}/')}{inside}", scheme == "scripts"


def _script(data: bytes) -> bytes:
    from installer.utils import fix_shebang

    with fix_shebang(io.BytesIO(data), _INTERPRETER) as stream:
        return stream.read()


def _entry_points(archive: zipfile.ZipFile, lines: Lines) -> Iterator[tuple[str, tuple[str, str]]]:
    from installer.scripts import Script
    from installer.utils import parse_entrypoints

    for path in lines:
        if path.endswith(".dist-info/entry_points.txt") and path.count("/") == 1:
            for entry in parse_entrypoints(archive.read(path).decode()):
                name, data = Script(*entry).generate(_INTERPRETER, "posix")
                yield f"{_UP}/bin/{name}", _line(data)


def _line(data: bytes) -> tuple[str, str]:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}", str(len(data))


@contextmanager
def opened_ptxas(wheel: Path) -> Iterator[IO[bytes]]:
    """The assembler in the compiler's wheel. Raises WheelError when it holds none, or several."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(_PTXAS)]
        if len(names) != 1:
            raise WheelError(f"it holds {len(names)} files called ptxas", where=str(wheel), expected="one")
        with archive.open(names[0]) as source:
            yield source
