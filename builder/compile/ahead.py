"""Holds the recipe's FlashInfer modules against FlashInfer's own ahead-of-time list: what is left out, and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

_TABLE = Path(__file__).with_name("ahead.toml")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Group:
    """Modules by a shell pattern, why they are not built, and whether vLLM may have them compiled on the device."""

    modules: str
    reason: str
    at_first_use: bool = False


@cache
def groups() -> tuple[Group, ...]:
    """The groups of `ahead.toml`, in the order in which they are tried."""
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return tuple(Group(**entry) for entry in table["group"])


def audit(listed: Iterable[str], components: Sequence[str]) -> dict[str, Any]:
    """FlashInfer's list against the components, as one JSON-able document, `version` 1.

    `beside` are components that its list does not hold, `unexplained` modules that are neither built nor left out
    for a reason.
    """
    names = sorted(listed)
    missing = [name for name in names if name not in components]
    reasons = {name: _group(name) for name in missing}
    return {
        "version": 1,
        "listed": len(names),
        "built": [name for name in names if name in components],
        "beside": [name for name in components if name not in names],
        "left_out": [
            asdict(group) | {"count": count}
            for group in groups()
            if (count := sum(1 for found in reasons.values() if found == group))
        ],
        "unexplained": [name for name in missing if reasons[name] is None],
    }


def told(found: dict[str, Any]) -> list[str]:
    """The audit for people: a line of counts, what may be compiled on the device, and what nobody explained."""
    out = sum(group["count"] for group in found["left_out"])
    late = [f"{group['modules']} ({group['count']})" for group in found["left_out"] if group["at_first_use"]]
    built, beside = len(found["built"]), len(found["beside"])
    lines = [
        f"FlashInfer lists {found['listed']} modules: {built} are built, {beside} more, {out} left out for a reason"
    ]
    if late:
        lines.append(f"compiled on the device if vLLM comes to call them: {', '.join(late)}")
    names = found["unexplained"]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(f"neither built nor explained in ahead.toml: {', '.join(names[:_NAMED])}{more}")
    return lines


def _group(name: str) -> Group | None:
    return next((group for group in groups() if fnmatchcase(name, group.modules)), None)
