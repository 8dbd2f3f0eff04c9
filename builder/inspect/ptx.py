"""Reads the same facts from PTX text as `sass` reads from machine code.

The text is never parsed as a whole (a wheel can hold a gigabyte of it): kernels are cut out at their
`.entry`, and only tokens that matter are looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from builder.errors import InspectError
from builder.inspect.devices import number
from builder.inspect.facts import CLASSES
from builder.inspect.sass import KernelScan

_HEADER = 4096
_VERSION = re.compile(rb"^[^\S\n]*\.version\s+(\d+\.\d+)", re.MULTILINE)
_TARGET = re.compile(rb"^[^\S\n]*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_NAME = re.compile(rb"\s*([\w$%]+)")
_MMA = re.compile(rb"mma[\w.:]*")
_CONVERT = re.compile(rb"cvt\.[\w.]{0,40}?(?:e2m1|e4m3|e5m2)x[\w.]*")
_FLOW = re.compile(
    rb"(?:^|[;{}])[^\S\n]*(?:(?P<guard>@!?[\w%$]+)\s{1,64})?"
    rb"(?:(?P<op>bra|brx|ret|exit|trap|brkpt)(?P<mods>[.\w]*)(?P<args>[^;:{}\n]*);|(?P<label>[\w$%]+):(?!:))",
    re.MULTILINE,
)
"""No search here goes on past the place where the next can begin: else a text of nothing but beginnings takes hours."""

_TRAPS = (re.compile(rb"trap(?<![\w$%.]trap)\s*;"), re.compile(rb"brkpt(?<![\w$%.]brkpt)\s*;"))
"""A breakpoint is a trap where no debugger is, and ptxas makes the same instruction of both."""

_STATEMENT = re.compile(rb"(?:^|[;{])[^\S\n]*([a-z][\w.:]*)", re.MULTILINE)
_IDLE = re.compile(rb"(?:ld\.param|mov|cvta|ret|exit|griddepcontrol)\b")
_GUARDED = re.compile(rb"(?:^|[;{])[^\S\n]*(?:@!?[\w%$]+\s{1,64})?([a-z][\w.:]*)", re.MULTILINE)
_TELLING = re.compile(
    _IDLE.pattern + rb"|(?:st\.(?:param|local)|add|or|and|setp|bra|cvt|call|vprintf|param\d+|retval\d+)\b"
)
"""What besides may stand in a kernel that only prints; a call's parts lie on lines of their own."""
_FUNCTION = re.compile(rb"\.func\s*(?:\([^)]*\)\s*)?([\w$%]+)")
_CALL = re.compile(rb"\bcall(?:\.uni)?(?:\s*\([^()]*\)\s*,\s*|\s+)([\w$%]+)")
_SMALL, _LONGEST, _MOST_CALLS = 4096, 1 << 16, 1 << 18


@dataclass(frozen=True, slots=True)
class PtxHeader:
    """`.version` (8.7) and `.target` (sm_120f) of a PTX module."""

    version: str
    target: str


def header(text: bytes | memoryview, where: str = "") -> PtxHeader:
    """Raises InspectError when the text does not begin like PTX."""
    start = bytes(text[:_HEADER])
    version, target = _VERSION.search(start), _TARGET.search(start)
    if version is None or target is None:
        raise InspectError(
            "a PTX entry has no .version or .target",
            where=where,
            expected="PTX text as nvcc writes it",
            remedy="the file is damaged or of another kind: fetch or build it again",
        )
    return PtxHeader(version[1].decode(), target[1].decode())


def scan(text: bytes, where: str = "") -> Iterator[tuple[str, KernelScan]]:
    """Name and facts of every kernel of a PTX module, in order.

    The code of a function counts in each kernel that calls it, as ptxas puts it there.
    """
    target = header(text, where).target
    words = _Words(
        convert=number(target) >= 89 and any(text.find(w) >= 0 for w in (b"e2m1x", b"e4m3x", b"e5m2x")),
        trap=any(text.find(word) >= 0 for word in (b"trap", b"brkpt")),
    )
    kernels, functions = _parts(text)
    called = {name: _count(text, part, words) for name, part in functions.items()}
    calls = {name: _calls(text, part, functions) for name, part in functions.items()}
    left = _MOST_CALLS
    for name, part in kernels:
        counts = _count(text, part, words)
        reached = _reached(_calls(text, part, functions), calls)
        left -= len(reached)
        if left < 0:
            raise InspectError(f"its kernels reach more than {_MOST_CALLS} functions", where=where)
        for function in reached:
            counts += called[function]
        yield name, _facts(text, part, counts)


@dataclass(frozen=True, slots=True)
class _Words:
    """Which rare words a module holds at all, so that most kernels need not be searched for them."""

    convert: bool
    trap: bool


Part = tuple[int, int]
"""Where a kernel or function begins and ends in the text."""


def _parts(text: bytes) -> tuple[list[tuple[str, Part]], dict[str, Part]]:
    cuts = sorted([*_all(text, b".entry"), *_all(text, b".func"), len(text)])
    kernels, functions = [], {}
    for start, end in pairwise(cuts):
        if text.startswith(b".entry", start):
            if name := _NAME.match(text, start + 6, min(end, start + _LONGEST)):
                kernels.append((name[1].decode(errors="replace"), (start, end)))
        elif name := _FUNCTION.match(text, start, min(end, start + _LONGEST)):
            functions[name[1].decode(errors="replace")] = (start, end)
    return kernels, functions


def _all(text: bytes, word: bytes) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + len(word))


def _count(text: bytes, part: Part, words: _Words) -> Counter[str]:
    counts: Counter[str] = Counter()
    for token, count in Counter(_MMA.findall(text, *part)).items():  # few distinct ones among many
        counts[_mma_class(token)] += count
    if words.convert:
        counts.update("F2FP.E2M1" if b"e2m1x" in token else "F2FP.FP8" for token in _CONVERT.findall(text, *part))
    if words.trap:
        counts["BPT.TRAP"] = sum(len(trap.findall(text, *part)) for trap in _TRAPS)
    return counts


def _calls(text: bytes, part: Part, functions: dict[str, Part]) -> set[str]:
    if not functions:
        return set()
    return {name.decode(errors="replace") for name in _CALL.findall(text, *part)} & functions.keys()


def _reached(first: set[str], calls: dict[str, set[str]]) -> set[str]:
    todo, found = list(first), set(first)
    while todo:
        more = calls[todo.pop()] - found
        found |= more
        todo += more
    return found


def _facts(text: bytes, part: Part, counts: Counter[str]) -> KernelScan:
    ends = text.rfind(b"ret;", *part) >= 0 or text.rfind(b"exit;", *part) >= 0
    trap_only = not ends or (counts["BPT.TRAP"] > 0 and not _reaches_end(text[slice(*part)]))
    return KernelScan(tuple(counts[name] for name in CLASSES), trap_only, _is_empty(text, *part))


def _mma_class(token: bytes) -> str:
    """The machine instruction that an mma, wgmma or tcgen05.mma becomes; empty for other tokens."""
    if token.startswith(b"mma_async"):
        return _group_class(token)
    if b".sync" not in token:
        return "UTCMMA" if b"cta_group" in token else ""
    if b"kind::mxf4" in token:
        return "OMMA"
    if b"f8f6f4" in token or b"e4m3" in token or b"e5m2" in token:
        return "QMMA"
    return "IMMA" if b".s32" in token else "HMMA"


def _group_class(token: bytes) -> str:
    if b"e4m3" in token or b"e5m2" in token:
        return "QGMMA"
    return "IGMMA" if b".s32" in token else "HGMMA"


def _is_empty(text: bytes, start: int, end: int) -> bool:
    if end - start > _SMALL:
        return False
    body = text[start:end].partition(b"{")[2]
    if set(_CALL.findall(body)) == {b"vprintf"}:
        return all(_TELLING.match(word) for word in _GUARDED.findall(body))
    return all(_IDLE.match(word) for word in _STATEMENT.findall(body))


def _reaches_end(body: bytes) -> bool:
    """True when some path from the kernel's first statement comes to ret or exit."""
    steps = list(_FLOW.finditer(body))
    labels = {step["label"]: index for index, step in enumerate(steps) if step["label"]}
    todo, seen = [0], set()
    while todo:
        index = todo.pop()
        if index in seen or index >= len(steps):
            continue
        seen.add(index)
        operation, guarded = steps[index]["op"], steps[index]["guard"] is not None
        if operation in {b"ret", b"exit", b"brx"}:
            return True
        if operation == b"bra":
            todo += [labels[target] for target in (steps[index]["args"].strip(),) if target in labels]
        if guarded or operation not in {b"bra", b"trap", b"brkpt"}:
            todo.append(index + 1)
    return False
