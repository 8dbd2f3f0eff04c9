"""Compile units as a build.ninja names them, and when each ran as .ninja_log tells.

Ninja itself answers neither in one call that takes no lock on the build folder: `-t compdb` leaves out which
target a unit belongs to, and the log has no tool at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
_ESCAPED = re.compile(r"\$([ :$])")
_WORDS = re.compile(r"(?:\$.|[^ $])+")
_VERSIONS = re.compile(r"# ninja log v[567]")


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """One object file: the target that makes it, and its source as people name it (`csrc/x.cu`)."""

    target: str
    source: str


@dataclass(frozen=True, slots=True)
class Link:
    """One library and the targets that go into it."""

    target: str
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """One finished command of ninja: what it made, from when to when (seconds since 1970)."""

    target: str
    start: float
    end: float


Read = Callable[[str], str]


def units_in(text: str, root: str, read: Read) -> tuple[Unit, ...]:
    """The compile units of a build file, sorted. `read` gives the text of a file that it includes."""
    found = (_unit(outputs, inputs, root) for outputs, inputs in _edges(text, read))
    return tuple(sorted(unit for unit in found if unit is not None))


def links_in(text: str, read: Read) -> tuple[Link, ...]:
    """The libraries of a build file, in its order."""
    return tuple(
        Link(outputs[0], tuple(name for name in inputs if name.endswith(".o")))
        for outputs, inputs in _edges(text, read)
        if outputs and outputs[0].endswith(".so")
    )


def reader(folder: Path) -> Read:
    """Reads the build files that another includes; one that is not there yet is empty."""

    def read(name: str) -> str:
        path = folder / name
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    return read


def edges_in(log: str) -> tuple[Edge, ...]:
    """What a .ninja_log says was made, the last time each.

    The fourth column is the time at which a command began, in nanoseconds. Lines of another form count for nothing:
    a killed ninja leaves a line cut short.
    """
    if not _VERSIONS.match(log):
        return ()
    rows = (row for line in log.splitlines()[1:] if (row := _edge(line.split("\t"))))
    return tuple(sorted({row.target: row for row in rows}.values(), key=lambda edge: (edge.start, edge.target)))


def _edge(fields: list[str]) -> Edge | None:
    try:
        first, last, began, target, _ = fields
        start = int(began) / 1e9
        return Edge(target, start, start + (int(last) - int(first)) / 1000)
    except ValueError:
        return None


def _edges(text: str, read: Read) -> Iterator[tuple[list[str], list[str]]]:
    for line in text.replace("$\n", "").splitlines():
        word, _, rest = line.partition(" ")
        if word in ("include", "subninja"):
            yield from _edges(read(rest.strip()), read)
        elif word == "build":
            outputs, inputs = _sides(_WORDS.findall(rest.replace("\t", " ")))
            yield outputs, inputs[1:]


def _sides(words: list[str]) -> tuple[list[str], list[str]]:
    """Explicit outputs, and the rule with its explicit inputs: what follows `|` is implicit or order only."""
    at = next((i for i, word in enumerate(words) if word.endswith(":") and not word.endswith("$:")), len(words))
    words = [*words[:at], words[at].removesuffix(":"), *words[at + 1 :]] if at < len(words) else words
    left, right = words[: at + 1], words[at + 1 :]
    return _plain(left), _plain(right)


def _plain(words: list[str]) -> list[str]:
    end = next((i for i, word in enumerate(words) if word in ("|", "||", "|@")), len(words))
    return [_ESCAPED.sub(r"\1", word) for word in words[:end] if word]


def _unit(outputs: list[str], inputs: list[str], root: str) -> Unit | None:
    if not outputs or not inputs or not outputs[0].endswith(".o") or not inputs[0].endswith(_SOURCES):
        return None
    source = PurePosixPath(inputs[0])
    inside = source.is_relative_to(root)
    return Unit(outputs[0], str(source.relative_to(root) if inside else source))
