"""Holds the recipe's FlashInfer modules against FlashInfer's own ahead-of-time list: what is left out, and why."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from builder.errors import CompileError

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


def left_out(components: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The groups of which something is not built with these components, each with the number that are (`built`)."""
    return tuple(
        asdict(group) | {"built": sum(1 for name in components if _group(name) == group)}
        for group in groups()
        if group.modules not in components
    )


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
    """The audit for people: a line of counts, and what may be compiled on the device."""
    out = sum(group["count"] for group in found["left_out"])
    late = [f"{group['modules']} ({group['count']})" for group in found["left_out"] if group["at_first_use"]]
    built, beside = len(found["built"]), len(found["beside"])
    lines = [
        f"FlashInfer lists {found['listed']} modules: {built} are built, {beside} more, {out} left out for a reason"
    ]
    if late:
        lines.append(f"compiled on the device if vLLM comes to call them: {', '.join(late)}")
    return lines


def check(found: Mapping[str, Any]) -> None:
    """Raise CompileError when the list has modules that are neither built nor left out for a reason."""
    names = found["unexplained"]
    if not names:
        return
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    raise CompileError(
        f"nobody has said whether to build {', '.join(names[:_NAMED])}{more}",
        where="FlashInfer's ahead-of-time list, beside the recipe's components of flashinfer-jit-cache",
        expected="each module of the list is a component, or has a reason in builder/compile/ahead.toml",
        remedy="make it a component if vLLM calls it on the target: else it is compiled there at the first request; "
        "or add it to ahead.toml with the reason",
    )


def _group(name: str) -> Group | None:
    return next((group for group in groups() if fnmatchcase(name, group.modules)), None)
