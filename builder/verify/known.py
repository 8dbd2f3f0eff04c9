"""Knowledge that is data: `known.toml`, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from builder.verify.expect import Exempt


@dataclass(frozen=True, slots=True)
class Preloaded:
    """A library that is there for all to see when an object is loaded which needs or exports names like these."""

    library: str
    needing: tuple[str, ...]
    exporting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Library names (shell patterns), what those of Linux have without a version, kernels that are empty on purpose."""

    foreign: tuple[str, ...]
    cuda_major: frozenset[str]
    system: frozenset[str]
    driver: frozenset[str]
    unversioned: Mapping[str, frozenset[str]]
    preloaded: tuple[Preloaded, ...]
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
        unversioned={entry["library"]: frozenset(entry["names"]) for entry in raw["unversioned"]},
        preloaded=tuple(
            Preloaded(e["library"], tuple(e.get("needing", ())), tuple(e.get("exporting", ())))
            for e in raw["preloaded"]
        ),
        harmless=tuple(Exempt("*", e["rule"], e["reason"], e["name"], needed=False) for e in raw["harmless"]),
    )
