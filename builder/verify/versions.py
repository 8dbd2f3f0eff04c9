"""Versions that METADATA states, which need not be versions at all."""

from __future__ import annotations

from packaging.version import Version


def parsed(text: str) -> Version | None:
    """The version, None for a text that is none."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return None


def same(one: str, other: str, *, public: bool = False) -> bool:
    """True when both mean the same version, with `public` whatever their local part; texts that are none by letter."""
    first, second = parsed(one), parsed(other)
    if first is None or second is None:
        return one == other
    return first.public == second.public if public else first == second
