"""What an image of ours is: where things lie in it, its programs and variables, and the one time that it carries.

Read by those who build it and by those who judge it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from builder.model import ImagePin

PREFIX: Final = "/opt/spark"
ENTRYPOINT: Final = f"{PREFIX}/bin/entrypoint"
HEALTH: Final = f"{PREFIX}/bin/health"
PTXAS: Final = f"{PREFIX}/bin/ptxas"
SBOM: Final = f"{PREFIX}/share/sbom.cdx.json"
USER, UID, HOME = "spark", 10001, "/home/spark"
USER_ID: Final = f"{UID}:{UID}"
USER_LINE: Final = f"{USER}:x:{UID}:{UID}::{HOME}:/usr/sbin/nologin"
GROUP_LINE: Final = f"{USER}:x:{UID}:"
PORT: Final = 8000
HEALTH_TIMES: Final[Mapping[str, int]] = {"interval": 30, "timeout": 10, "start-period": 1800}
"""Seconds of the health check, by their names in a Containerfile. vLLM loads a model for minutes before it listens."""

HEALTH_RETRIES: Final = 3
_OCI_TIMES: Final = {"interval": "Interval", "timeout": "Timeout", "start-period": "StartPeriod"}
COMMAND: Final = ("--help",)
"""What the entrypoint is given when nobody says anything."""

EPOCH: Final = 315532800
"""1980-01-01T00:00:00Z, as in the wheels: zip files know no earlier time."""

CREATED: Final = "1980-01-01T00:00:00Z"

LAYERS: Final = ("cuda", "torch", "deps", "native", "home", "ours")
"""From what changes seldom to what changes with every patch: a line of Python changes the last alone."""


@dataclass(frozen=True, slots=True)
class Python:
    """The target's Python: `version` is 3.12; it is the base's own, `interpreter` in it."""

    version: str

    @property
    def interpreter(self) -> str:
        """The base's program."""
        return f"/usr/bin/python{self.version}"

    @property
    def site(self) -> str:
        """Where wheels are installed."""
        return f"{PREFIX}/lib/python{self.version}/site-packages"

    @property
    def headers(self) -> str:
        """Where wheels put their headers, a folder a project."""
        return f"{PREFIX}/include/python{self.version}"

    @property
    def settings(self) -> str:
        """The text of pyvenv.cfg: packages of the base's own Python stay out of sight."""
        return f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {self.version}\n"

    @property
    def links(self) -> dict[str, str]:
        """The environment's interpreters, and where they point to."""
        return {f"{PREFIX}/bin/{name}": self.interpreter for name in ("python", "python3", f"python{self.version}")}


def programs() -> dict[str, bytes]:
    """The image's own programs, by their paths in it. They are data here: nothing of them is imported."""
    files = resources.files("builder") / "image" / "files"
    return {place: files.joinpath(place.rpartition("/")[2]).read_bytes() for place in (ENTRYPOINT, HEALTH)}


def own_digests(python: Python) -> Mapping[str, str]:
    """SHA-256 of what is in the image by our hand alone, by path."""
    own = {**programs(), f"{PREFIX}/pyvenv.cfg": python.settings.encode()}
    return {place: hashlib.sha256(data).hexdigest() for place, data in own.items()}


def environment(pin: ImagePin, python: Python, state: str) -> dict[str, str]:
    """The image's variables. A base's LD_LIBRARY_PATH is emptied: torch finds its CUDA libraries by RPATH.

    With `jit`, CUDA_HOME names the compiler's wheels, so that FlashInfer can compile what its cache lacks. Bytecode has
    a folder for each `state` of what is installed: Python knows a source by size and time, and all times here are
    equal, so that an older image's bytecode in a volume would be run in place of a line that a patch has changed.
    """
    compiler = {"CUDA_HOME": f"{python.site}/nvidia/cu13"} if pin.jit else {}
    return compiler | {
        "HOME": HOME,
        "LD_LIBRARY_PATH": "",
        "LOGNAME": USER,
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "PATH": f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPYCACHEPREFIX": f"{HOME}/.cache/pycache/{state}",
        "TRITON_PTXAS_BLACKWELL_PATH": PTXAS,
        "TRITON_PTXAS_PATH": PTXAS,
        "USER": USER,
        "VIRTUAL_ENV": PREFIX,
    }


def healthcheck() -> dict[str, object]:
    """The same check as the Containerfile's, for configs of tools that leave it out; times in nanoseconds."""
    times = {_OCI_TIMES[name]: seconds * 1_000_000_000 for name, seconds in HEALTH_TIMES.items()}
    return {"Test": ["CMD", HEALTH], **times, "Retries": HEALTH_RETRIES}
