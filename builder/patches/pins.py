"""Sets pins of one package in a recipe file, leaving every other line as it is.

Edited by line and not written anew, because no TOML writer at hand keeps comments and layout.
The result is read back and must say what was wanted.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence

from builder.errors import PatchError

_TABLE = re.compile(r"\s*\[")


def repinned(text: str, package: str, pins: Mapping[str, str | Sequence[str] | None], where: str = "") -> str:
    """The recipe text with keys of `[[package]]` NAME set (None removes). Raises PatchError."""
    lines = text.splitlines(keepends=True)
    start, end = _table(lines, package, where)
    for key, value in pins.items():
        start_key, end_key = _key(lines, start, end, key)
        new = [] if value is None else [f"{key} = {_toml(value)}\n"]
        if lines[start_key:end_key] != new:
            lines[start_key:end_key] = new
        end += len(new) - (end_key - start_key)
    result = "".join(lines)
    _check(result, package, pins, where)
    return result


def _table(lines: Sequence[str], package: str, where: str) -> tuple[int, int]:
    """First line after `[[package]]` of that name, and the line after its last key."""
    starts = [index + 1 for index, line in enumerate(lines) if line.strip() == "[[package]]"]
    for start in starts:
        ends = (index for index in range(start, len(lines)) if _TABLE.match(lines[index]) and _is_table(lines[index]))
        end = next(ends, len(lines))
        if any(
            re.fullmatch(rf'name\s*=\s*["\']{re.escape(package)}["\']\s*(#.*)?', ln.strip()) for ln in lines[start:end]
        ):
            while end > start and not lines[end - 1].strip():
                end -= 1
            return start, end
    raise PatchError(
        f"no [[package]] named {package}",
        where=where,
        expected="the recipe that pins the package itself, not one that extends it",
        remedy="name the recipe that has the pins",
    )


def _is_table(line: str) -> bool:
    return re.fullmatch(r"\s*\[\[?[\w.\"' -]+\]\]?\s*(#.*)?\n?", line) is not None


def _key(lines: Sequence[str], start: int, end: int, key: str) -> tuple[int, int]:
    """The lines of one key's value; an empty span at the end when it is not there."""
    first = next((i for i in range(start, end) if re.match(rf"{re.escape(key)}\s*=", lines[i])), None)
    if first is None:
        return end, end
    for last in range(first + 1, end + 1):
        try:
            tomllib.loads("".join(lines[first:last]))
        except tomllib.TOMLDecodeError:
            continue
        return first, last
    return first, first + 1


def _toml(value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    items = [json.dumps(item, ensure_ascii=False) for item in value]
    line = f"[{', '.join(items)}]"
    return line if len(line) < 100 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _check(text: str, package: str, pins: Mapping[str, str | Sequence[str] | None], where: str) -> None:
    table = next(entry for entry in tomllib.loads(text)["package"] if entry["name"] == package)
    wrong = [
        key for key, value in pins.items() if table.get(key) != (list(value) if isinstance(value, tuple) else value)
    ]
    if wrong:
        raise PatchError(
            f"could not set {', '.join(wrong)} of {package}",
            where=where,
            expected="plain keys, one a line",
            remedy="write the table in the usual form, or set the pins by hand",
        )
