"""The manylinux levels, as auditwheel's policy data has them: what every system of a level offers.

auditwheel's own analysis resolves every needed library on the machine it runs on, which a cross
build cannot offer; the data is all that is needed, because we never bundle a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Level:
    """One level: its name (`manylinux_2_34`), symbol versions by family, and libraries."""

    name: str
    versions: Mapping[str, frozenset[str]]
    libraries: frozenset[str]

    @property
    def glibc(self) -> tuple[int, ...]:
        """(2, 34): systems of this level have that glibc or a newer one."""
        return numbers(self.name.partition("_")[2])


@cache
def levels(machine: str) -> tuple[Level, ...]:
    """The levels that a machine has, the most compatible first."""
    raw: list[dict[str, Any]] = json.loads((files("auditwheel.policy") / "manylinux-policy.json").read_text())
    found = [
        Level(
            entry["name"],
            {family: _of(entry["name"], family, names) for family, names in entry["symbol_versions"][machine].items()},
            frozenset(entry["lib_whitelist"]),
        )
        for entry in raw
        if machine in entry["symbol_versions"] and entry["name"].startswith("manylinux_")
    ]
    return tuple(sorted(found, key=lambda level: level.glibc))


def _of(level: str, family: str, names: Sequence[str]) -> frozenset[str]:
    """Without what only the level's distribution has: GLIBC_2.18 was brought to the 2.17 of CentOS on aarch64."""
    most = numbers(level.partition("_")[2])
    return frozenset(name for name in names if family != "GLIBC" or numbers(name) <= most)


def numbers(text: str) -> tuple[int, ...]:
    """(2, 34) of `2.34` or `2_34`, for comparing; a number of more than nine digits is taken apart."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text))
