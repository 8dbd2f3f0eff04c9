"""Where things lie in the image, and the one time that all of it carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PREFIX: Final = "/opt/spark"
ENTRYPOINT: Final = f"{PREFIX}/bin/entrypoint"
HEALTH: Final = f"{PREFIX}/bin/health"
PTXAS: Final = f"{PREFIX}/bin/ptxas"
SBOM: Final = f"{PREFIX}/share/sbom.cdx.json"
USER, UID, HOME = "spark", 10001, "/home/spark"
USER_LINE: Final = f"{USER}:x:{UID}:{UID}::{HOME}:/usr/sbin/nologin"
GROUP_LINE: Final = f"{USER}:x:{UID}:"
PORT: Final = 8000

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
