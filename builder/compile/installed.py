"""The CUDA that is installed on this machine, for toolchain=system: where it is, and what it is by its own bytes.

Its version number says too little: a package manager updates it in place, by the same path and often the same number.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from builder.errors import ToolchainError
from builder.store import key_of, sha256_of

_PROGRAMS = ("bin/nvcc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc")
_FACTS = ("version.json", "bin/nvcc.profile")
"""NVIDIA's list of what is installed, libraries and headers too; and nvcc's settings."""

_DEVICE = "nvvm/libdevice/*"
_READ = ("include/**/*", "lib64/*.a")
_USUAL = "/usr/local/cuda"
_RELEASE = re.compile(r"release (\d+\.\d+)")


def installed_cuda() -> Path:
    """Its folder: CUDA_HOME, else /usr/local/cuda. Raises ToolchainError where neither has an nvcc."""
    places = [os.environ.get("CUDA_HOME", ""), _USUAL]
    for place in places:
        if place and (Path(place) / "bin" / "nvcc").is_file():
            return Path(place)
    raise ToolchainError(
        "toolchain=system, and no nvcc here",
        where=f"CUDA_HOME, {_USUAL}",
        remedy="set CUDA_HOME, or leave out toolchain=system to use the locked toolchain",
    )


def digest_of(cuda: Path) -> str:
    """A digest of the programs that make code, of the list of all that is installed with them, and of what they read.

    Of headers and static libraries, thousands of files and gigabytes, size and time count: not all belong to a list,
    and a package manager that replaces one gives it its own time.
    """
    files = [*(cuda / name for name in (*_PROGRAMS, *_FACTS)), *sorted(cuda.glob(_DEVICE))]
    bytes_of = {str(path.relative_to(cuda)): sha256_of(path) for path in files if path.is_file()}
    read = (path for pattern in _READ for path in sorted(cuda.glob(pattern)))
    return key_of([bytes_of, [_state(path, cuda) for path in read if path.is_file()]])


def _state(path: Path, cuda: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(path.relative_to(cuda)), found.st_size, found.st_mtime_ns


def release_in(said: str) -> str:
    """`13.0` of what `nvcc --version` says; empty when it says none."""
    found = _RELEASE.search(said)
    return found[1] if found else ""


def version_of(cuda: Path, release: str) -> str:
    """`13.0.2` by the list that NVIDIA's packages bring, else `release`, which is what nvcc itself says."""
    try:
        version = json.loads((cuda / "version.json").read_bytes())["cuda"]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return release
    return str(version)
