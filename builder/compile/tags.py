"""The platform tag that a wheel's objects earn, by auditwheel's manylinux policy data.

auditwheel's own analysis resolves every needed library on the machine it runs on, which a cross
build cannot offer; its policy data is all that is needed, because we never bundle a library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.resources import files
from typing import Any

from builder.errors import WheelError
from builder.inspect.facts import ElfFacts

EXCLUDED = ("libtorch*.so", "libc10*.so", "libcuda.so.1", "lib*cu*.so.*", "libnv*.so.*", "ld-linux-*.so.*")
"""Libraries that come with torch, the CUDA wheels, the driver or every Linux: never bundled."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One manylinux level: the symbol versions and libraries that every such system has."""

    name: str
    versions: Mapping[str, frozenset[str]]
    libraries: frozenset[str]


@cache
def policies(machine: str) -> tuple[Policy, ...]:
    """The manylinux policies of auditwheel for a machine, the most compatible first."""
    raw: list[dict[str, Any]] = json.loads((files("auditwheel.policy") / "manylinux-policy.json").read_text())
    found = [
        (
            entry["priority"],
            Policy(
                entry["name"],
                {key: frozenset(value) for key, value in entry["symbol_versions"][machine].items()},
                frozenset(entry["lib_whitelist"]),
            ),
        )
        for entry in raw
        if machine in entry["symbol_versions"] and entry["name"].startswith("manylinux_")
    ]
    return tuple(policy for _, policy in sorted(found, key=lambda pair: -pair[0]))


def platform_tag(objects: Mapping[str, ElfFacts], machine: str) -> str:
    """`manylinux_2_34_aarch64`: the lowest level whose systems have all that the objects need.

    Raises WheelError for an object of another machine, for a library that would have to be
    bundled, and when no level is high enough.
    """
    for path, facts in objects.items():
        _check(path, facts, machine)
    for policy in policies(machine):
        if all(_fits(facts, policy) for facts in objects.values()):
            return f"{policy.name}_{machine}"
    raise WheelError(
        "no manylinux level has what these objects need",
        where=", ".join(objects),
        expected=f"at most {policies(machine)[-1].name}",
        remedy="build on an older distribution, or with an older compiler",
    )


def _check(path: str, facts: ElfFacts, machine: str) -> None:
    if facts.machine != machine:
        raise WheelError(f"{path} is for {facts.machine}", where=path, expected=machine, remedy="check the compilers")
    known = policies(machine)[-1].libraries
    strange = [lib for lib in facts.needed if lib not in known and not any(fnmatch(lib, glob) for glob in EXCLUDED)]
    if strange:
        raise WheelError(
            f"{path} needs {', '.join(strange)}",
            where=path,
            expected="libraries of torch, CUDA or manylinux only: nothing is bundled",
            remedy="link it statically, or add the library's package to the requirements",
        )


def _fits(facts: ElfFacts, policy: Policy) -> bool:
    for _, version, library in facts.versions:
        kind, _, number = version.partition("_")
        if library in policy.libraries and kind in policy.versions and number not in policy.versions[kind]:
            return False
    return True
