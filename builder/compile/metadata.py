"""Edits of a wheel's METADATA: its version, and exact pins of what it was built against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def edited(text: str, *, version: str, pins: Mapping[str, str], requires: Sequence[str] = ()) -> str:
    """The METADATA with that version and with exact pins in force.

    `pins` (project → requirement) replace what upstream requires of these projects, outside
    extras; `requires` do so too, and are added after the last requirement where there is none.
    """
    own: dict[str, str] = {canonicalize_name(Requirement(line).name): line for line in requires}
    head, blank, body = text.partition("\n\n")
    lines = [_edit(line, version, {**pins, **own}) for line in head.splitlines()]
    present = {name for line in lines if (name := _required(line))}
    missing = [f"Requires-Dist: {line}" for name, line in own.items() if name not in present]
    last = max((i for i, line in enumerate(lines) if line.startswith("Requires-Dist:")), default=len(lines) - 1)
    return "\n".join([*lines[: last + 1], *missing, *lines[last + 1 :]]) + (blank or "\n") + body


def _edit(line: str, version: str, pins: Mapping[str, str]) -> str:
    if line.startswith("Version:"):
        return f"Version: {version}"
    name = _required(line)
    return f"Requires-Dist: {pins[name]}" if name in pins else line


def _required(line: str) -> str:
    """The normalised project that a Requires-Dist line asks for unconditionally, or nothing."""
    key, _, value = line.partition(":")
    if key != "Requires-Dist":
        return ""
    requirement = Requirement(value.strip())
    marker = str(requirement.marker or "")
    return "" if "extra" in marker else canonicalize_name(requirement.name)
