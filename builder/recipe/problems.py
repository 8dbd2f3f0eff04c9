"""Everything that is wrong with a file, collected first and told in one RecipeError."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.errors import RecipeError


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: its file, its table as written (`[[package]] vllm`), and what is wrong there."""

    file: Path
    table: str
    text: str

    def __str__(self) -> str:
        return f"{self.table}: {self.text}" if self.table else self.text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'commit'?` when one of `known` is near, else an empty text."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else ""


def listed(words: Iterable[str]) -> str:
    """The words for a sentence: `a, b, c`."""
    return ", ".join(words)


def raise_for(problems: Iterable[Problem], noun: str = "recipe") -> None:
    """Raise one RecipeError that tells all of them, file by file; nothing when there are none."""
    unique = list(dict.fromkeys(problems))
    if not unique:
        return
    files = list(dict.fromkeys(problem.file for problem in unique))
    count = "1 problem" if len(unique) == 1 else f"{len(unique)} problems"
    lines = [f"{count} in {noun} {listed(file.name for file in files)}"]
    for file in files:
        lines += [f"  {file.name}: {problem}" for problem in unique if problem.file == file]
    raise RecipeError(
        "\n".join(lines), where=listed(str(file) for file in files), remedy=f"mend the {noun} and run again"
    )


def read_toml(path: Path, noun: str = "recipe") -> dict[str, object]:
    """Parse a TOML file; raises RecipeError with line and column when it is not TOML."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        fault = f"not valid TOML: {error}"
    except UnicodeDecodeError as error:
        fault = f"not UTF-8: {error.reason} at byte {error.start}"
    except RecursionError:
        fault = "tables or arrays nested too deeply"
    except ValueError as error:
        fault = f"not valid TOML: {error}"
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    raise RecipeError(
        f"{noun} {path.name}: {fault}", where=str(path), expected="a TOML 1.0 file", remedy=f"mend the {noun}"
    )


def table_name(location: tuple[int | str, ...], data: object) -> tuple[str, str]:
    """A place in the data as a person writes it: the table's header and the rest of the path.

    `("package", 2, "externals", 0, "commit")` → `("[[package]] vllm", "externals[0].commit")`.
    """
    if len(location) > 1 and isinstance(location[1], int):
        header, rest = f"[[{location[0]}]] {_entry_label(location, data)}", location[2:]
    elif len(location) > 1 and isinstance(_child(data, location[0]), Mapping):
        header, rest = f"[{location[0]}]", location[1:]
    else:
        header, rest = "", location
    return header.strip(), _dotted(rest)


def _entry_label(location: tuple[int | str, ...], data: object) -> str:
    entry = _child(_child(data, location[0]), location[1])
    label = next((_child(entry, key) for key in ("name", "filename", "project") if _child(entry, key)), None)
    return label if isinstance(label, str) else f"number {int(location[1]) + 1}"


def _child(value: object, key: int | str) -> object:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return None


def _dotted(parts: tuple[int | str, ...]) -> str:
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text
