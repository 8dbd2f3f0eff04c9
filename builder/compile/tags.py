"""The platform tag that a wheel's objects earn, by what the manylinux levels offer."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

from builder.errors import WheelError
from builder.inspect.facts import ElfFacts
from builder.manylinux import Level, levels

EXCLUDED = ("libtorch*.so", "libc10*.so", "libcuda.so.1", "lib*cu*.so.*", "libnv*.so.*", "ld-linux-*.so.*")
"""Libraries that come with torch, the CUDA wheels, the driver or every Linux: never bundled."""


def platform_tag(objects: Mapping[str, ElfFacts], machine: str) -> str:
    """`manylinux_2_34_aarch64`: the lowest level whose systems have all that the objects need.

    Raises WheelError for an object of another machine, for a library that would have to be
    bundled, and when no level is high enough.
    """
    for path, facts in objects.items():
        _check(path, facts, machine)
    for level in levels(machine):
        if all(_fits(facts, level) for facts in objects.values()):
            return f"{level.name}_{machine}"
    raise WheelError(
        "no manylinux level has what these objects need",
        where=", ".join(objects),
        expected=f"at most {levels(machine)[-1].name}",
        remedy="build on an older distribution, or with an older compiler",
    )


def _check(path: str, facts: ElfFacts, machine: str) -> None:
    if facts.machine != machine:
        raise WheelError(f"{path} is for {facts.machine}", where=path, expected=machine, remedy="check the compilers")
    known = levels(machine)[-1].libraries
    strange = [lib for lib in facts.needed if lib not in known and not any(fnmatch(lib, glob) for glob in EXCLUDED)]
    if strange:
        raise WheelError(
            f"{path} needs {', '.join(strange)}",
            where=path,
            expected="libraries of torch, CUDA or manylinux only: nothing is bundled",
            remedy="link it statically, or add the library's package to the requirements",
        )


def _fits(facts: ElfFacts, level: Level) -> bool:
    for _, version, library in facts.versions:
        kind, _, number = version.partition("_")
        if library in level.libraries and kind in level.versions and number not in level.versions[kind]:
            return False
    return True
