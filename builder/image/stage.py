"""Wheels into folders, one a layer, as the image will have them: nothing of the target is run.

PyPA's installer unpacks them and writes RECORD and scripts. Every mode and time is set here, and no
bytecode is made, so that the same wheels give the same folders anywhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from builder.errors import WheelError
from builder.inspect.work import threads
from builder.verify.image import opened_ptxas
from builder.verify.image.places import EPOCH, LAYERS, PREFIX, PTXAS, Python, programs

_CUDA: Final = ("nvidia-", "cuda-")
_TORCH: Final = ("torch", "torchaudio", "torchvision", "triton", "flashinfer-cubin")
_ELF: Final = b"\x7fELF"
_LARGE: Final = 1 << 20
_SPARE: Final = ("build_backend.py",)
"""Files beside the packages that several projects pack by mistake and that nothing imports: the first wheel's stays."""


@dataclass(frozen=True, slots=True)
class Part:
    """One wheel to install: its project, its file, and the name that it was published under."""

    project: str
    path: Path
    filename: str
    ours: bool = False

    @property
    def layer(self) -> str:
        """The layer that most of it goes to."""
        if self.ours:
            return "ours"
        if self.project.startswith(_CUDA):
            return "cuda"
        return "torch" if self.project in _TORCH else "deps"


def stage(parts: Sequence[Part], python: Python, into: Path) -> None:
    """Lay out every layer's folder below `into`. Raises WheelError for wheels that collide or cannot be unpacked."""
    for layer in LAYERS:
        (into / layer).mkdir(parents=True)
    owners: dict[str, str] = {}
    ordered = sorted(parts, key=lambda part: (not part.ours, part.filename))
    with tempfile.TemporaryDirectory(dir=into) as work, warnings.catch_warnings(), threads() as pool:
        warnings.filterwarnings("ignore", "Skip installing", RuntimeWarning)  # bytecode that a wheel brings along
        places = [Path(work, str(number)) for number in range(len(ordered))]
        for part, place in zip(ordered, pool.map(partial(_install, python), ordered, places), strict=True):
            _move(part, python, place, into, owners)


def finish(into: Path) -> None:
    """Set modes and times of everything staged."""
    for folder, _, names in os.walk(into, topdown=False):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            if not path.is_symlink():
                plain = path.is_file() and not path.stat().st_mode & 0o111
                path.chmod(0o644 if plain else 0o755)
            os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)


def own_files(python: Python, users: Mapping[str, str], into: Path) -> None:
    """The environment's own files: interpreter links, entrypoint, health check, and `users` (passwd and group)."""
    ours = into / "ours"
    prefix = ours / PREFIX.strip("/")
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    (prefix / "pyvenv.cfg").write_text(python.settings, encoding="utf-8")
    for place, target in python.links.items():
        (ours / place.strip("/")).symlink_to(target)
    for place, data in programs().items():
        (ours / place.strip("/")).write_bytes(data)
        (ours / place.strip("/")).chmod(0o755)
    for name, text in users.items():
        (ours / "etc").mkdir(exist_ok=True)
        (ours / "etc" / name).write_text(text, encoding="utf-8")
    (into / "home" / ".cache").mkdir(parents=True)


def take_ptxas(wheel: Path, into: Path) -> None:
    """The assembler alone out of the compiler's wheel. Raises WheelError when it holds none."""
    target = into / "cuda" / PTXAS.strip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    with opened_ptxas(wheel) as source, target.open("xb") as sink:
        shutil.copyfileobj(source, sink, _LARGE)
    target.chmod(0o755)


def _install(python: Python, part: Part, work: Path) -> Path:
    from installer import install
    from installer.destinations import SchemeDictionaryDestination
    from installer.exceptions import InstallerError
    from installer.sources import WheelFile

    scheme = {
        "purelib": python.site,
        "platlib": python.site,
        "scripts": f"{PREFIX}/bin",
        "data": PREFIX,
        "headers": f"{python.headers}/{part.project}",
    }
    destination = SchemeDictionaryDestination(scheme, f"{PREFIX}/bin/python3", "posix", destdir=str(work))
    named = work / ".wheel" / part.filename
    named.parent.mkdir(parents=True)
    named.symlink_to(part.path.resolve())
    try:
        with WheelFile.open(named) as source:
            install(source, destination, additional_metadata={"INSTALLER": b"spark-wheels\n"})
    except (InstallerError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise WheelError(f"{part.filename} cannot be installed: {error}", where=str(part.path)) from error
    shutil.rmtree(named.parent)
    return work


def _move(part: Part, python: Python, work: Path, into: Path, owners: dict[str, str]) -> None:
    """Into the layers; of our own wheels, what is compiled goes to a layer that a Python patch leaves alone."""
    for folder, _, names in os.walk(work):
        for name in sorted(names):
            path = Path(folder, name)
            inside = path.relative_to(work)
            layer = "native" if part.ours and _is_native(path) else part.layer
            target = into / layer / inside
            before = owners.setdefault(str(inside), f"{layer} {part.filename}")
            if before != f"{layer} {part.filename}":
                if name not in _SPARE or folder != f"{work}{python.site}":
                    _same_or_refuse(path, into / before.partition(" ")[0] / inside, part, before)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)


def _is_native(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == _ELF or path.stat().st_size > _LARGE


def _same_or_refuse(path: Path, other: Path, part: Part, before: str) -> None:
    if path.read_bytes() != other.read_bytes():
        raise WheelError(
            f"two wheels bring different files of one name: {path.name}",
            where=f"{part.filename} and {before.partition(' ')[2]}",
            expected="equal files where wheels share a path",
            remedy="lock versions of the two that do not collide",
        )
