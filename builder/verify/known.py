"""Knowledge that is data: `known.toml`, read once."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from builder.verify.expect import Exempt


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Library names (shell patterns), and kernels that are empty on purpose."""

    foreign: tuple[str, ...]
    cuda_major: frozenset[str]
    system: frozenset[str]
    driver: frozenset[str]
    harmless: tuple[Exempt, ...]


@cache
def knowledge() -> Knowledge:
    """What `known.toml` says."""
    raw = tomllib.loads((files("builder.verify") / "known.toml").read_text())
    libraries = raw["libraries"]
    return Knowledge(
        foreign=tuple(libraries["foreign"]),
        cuda_major=frozenset(libraries["cuda_major"]),
        system=frozenset(libraries["system"]),
        driver=frozenset(libraries["driver"]),
        harmless=tuple(Exempt("*", e["rule"], e["reason"], e["name"], needed=False) for e in raw["harmless"]),
    )
