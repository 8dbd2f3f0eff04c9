"""What an installer makes of a wheel: tags that the target's Python takes, and requirements that are in force there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name


def takes(python: str, tags: Iterable[str]) -> bool:
    """True when one of the tags is for that CPython (`3.12`), whatever its platform."""
    major, minor = (int(part) for part in python.split("."))
    version, own, anywhere = (major, minor), f"cp{major}{minor}", ["any"]
    known = chain(cpython_tags(version, [own], anywhere), compatible_tags(version, own, anywhere))
    return not {f"{tag.interpreter}-{tag.abi}" for tag in known}.isdisjoint(tag.rpartition("-")[0] for tag in tags)


def runs_on(asked: str, python: str) -> bool:
    """True when a Requires-Python takes the first release of that Python (`3.12`); one without sense takes none."""
    try:
        return SpecifierSet(asked).contains(f"{python}.0")
    except InvalidSpecifier:
        return False


def project(line: str) -> str:
    """The project that a requirement is of; empty for a line that is none."""
    try:
        return canonicalize_name(Requirement(line).name)
    except InvalidRequirement:
        return ""


def in_force(line: str, python: str, machine: str) -> bool:
    """False for a requirement that is passed over there, as nobody asks for extras; and for a marker without sense."""
    marker = Requirement(line).marker
    try:
        return marker is None or marker.evaluate(environment(machine, python) | {"extra": ""})
    except ValueError:
        return False


def environment(machine: str, python: str) -> dict[str, str]:
    """All that a marker can ask of CPython on Linux but extras, so that nothing is asked of the machine at hand."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }


def allows(line: str, version: str) -> bool:
    """True when the requirement is met by that version."""
    try:
        return Requirement(line).specifier.contains(version, prereleases=True)
    except ValueError:  # a number of thousands of digits
        return False


def pins(line: str) -> bool:
    """True for one release, `==2.11.0`, and for its patches, `==2.11.*`; `==2.*` is a range."""
    exact = (one.version for one in Requirement(line).specifier if one.operator in {"==", "==="})
    return any(not version.endswith(".*") or version.count(".") > 1 for version in exact)
