"""The longest units first: ninja starts what is ready in the order of its build file.

It also names the unit to every step, by an assignment in front of the compiler's command: what runs below sccache
cannot tell otherwise whose object it makes. Planning is pure, text in and text out, and doing it twice changes
nothing. Used by the stub in front of ninja, so it imports nothing that takes time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

from .say import say
from .task import kin_of, unit_of
from .useless import codes_in, useless

_NAMED = "SPARK_UNIT=$out "
_UNKNOWN_SECONDS = 30.0
_SOURCES = (".cu", ".cpp", ".cc", ".cxx")


def put_in_order(args: list[str], learned: str) -> None:
    """Rewrite the build files that these arguments of ninja build from; what cannot be read or written stays."""
    if _value(args, "-t") or "--version" in args:
        return
    folder = _value(args, "-C") or "."
    try:
        before = _files(folder, _value(args, "-f") or "build.ninja")
        seconds = seconds_by_unit(_text(learned)) if learned else {}
        for file, text in ordered(before, seconds).items():
            if text != before[file]:
                _replace(_place(folder, file), text)
    except (OSError, ValueError):
        return


def codes_by_unit(files: dict[str, str]) -> dict[str, list[str]]:
    """What each unit is compiled for; CMake's own checks of a compiler are none of ours."""
    found: dict[str, list[str]] = {}
    for text in files.values():
        shared = codes_in("".join(block for block in _blocks(text) if block.startswith("cuda_cflags")))
        for block in _blocks(text):
            name = _object_of(block)
            if name and "/cmTC_" not in name:
                found[unit_of(name)] = codes_in(block) or (shared if block.split()[2] == "cuda_compile" else [])
    return found


def refusal(args: list[str], device: str) -> str:
    """Why these arguments of ninja would compile for nothing; empty when there is nothing to say."""
    folder = _value(args, "-C") or "."
    if _value(args, "-t") or "--version" in args:
        return ""
    try:
        codes = codes_by_unit(_files(folder, _value(args, "-f") or "build.ninja"))
    except (OSError, ValueError):
        return ""
    lost, spare = useless(codes, device)
    for code, units in spare.items():
        say(f"{len(units)} units are compiled for {code} too, which a {device} device cannot run: {units[0]}, …")
    named = ", ".join(f"{unit} ({' '.join(codes[unit])})" for unit in lost)
    return f"no code that a {device} device can run is asked for in {named}" if lost else ""


def ordered(files: dict[str, str], seconds: dict[str, float]) -> dict[str, str]:
    """Build files, by name, with their units sorted by what they take, the longest first, and named to their steps.

    Only statements that compile one source into one object move, into the places where such statements stood, and
    statements that take in a file with such units. Those that nobody has measured count as `_UNKNOWN_SECONDS`;
    equals keep their order.
    """
    blocks = {name: _blocks(text) for name, text in files.items()}
    rules = {_rule_of(block) for each in blocks.values() for block in each if _object_of(block)}
    longest = {name: max((_seconds(block, seconds) for block in each), default=0.0) for name, each in blocks.items()}
    for each in blocks.values():
        _sort(each, [n for n, block in enumerate(each) if _object_of(block)], lambda b: _seconds(b, seconds))
        _sort(each, [n for n, block in enumerate(each) if longest.get(_taken(block))], lambda b: longest[_taken(b)])
    return {
        name: "".join(_named(block) if _rule_name(block) in rules else block for block in each)
        for name, each in blocks.items()
    }


def _sort(blocks: list[str], places: list[int], cost: Callable[[str], float]) -> None:
    for place, block in zip(places, sorted((blocks[n] for n in places), key=lambda b: -cost(b)), strict=True):
        blocks[place] = block


def seconds_by_unit(learned: str) -> dict[str, float]:
    """CPU seconds of each unit, from lines of `tool unit arch bytes seconds`: its steps' sum, or a line `unit`."""
    sums: dict[str, float] = {}
    whole: dict[str, float] = {}
    for line in learned.splitlines():
        fields = line.split("\t")
        if len(fields) == 5:
            into = whole if fields[0] == "unit" else sums
            into[fields[1]] = into.get(fields[1], 0.0) + float(fields[4])
    return {**whole, **sums}


def _blocks(text: str) -> list[str]:
    """The text in parts that each begin at a line's start: a statement with the lines that belong to it."""
    blocks: list[str] = []
    goes_on = False
    for line in text.splitlines(keepends=True):
        if blocks and (goes_on or line.startswith((" ", "\t"))):
            blocks[-1] += line
        else:
            blocks.append(line)
        goes_on = line.endswith("$\n")
    return blocks


def _object_of(block: str) -> str:
    """The object that a statement compiles one source into; empty for any other block."""
    if not block.startswith("build "):
        return ""
    outputs, _, rest = block[6:].partition("\n")[0].partition(": ")
    words = rest.split()
    name = outputs.split()[0] if outputs else ""
    return name if name.endswith(".o") and len(words) > 1 and words[1].endswith(_SOURCES) else ""


def _rule_of(block: str) -> str:
    return block.partition(": ")[2].split()[0]


def _rule_name(block: str) -> str:
    return block[5:].strip().partition("\n")[0].strip() if block.startswith("rule ") else ""


def _named(block: str) -> str:
    lines = block.splitlines(keepends=True)
    return "".join(_named_line(line) for line in lines)


def _named_line(line: str) -> str:
    name, equals, command = line.partition("=")
    if name.strip() != "command" or _NAMED in command:
        return line
    return f"{name}{equals} {_NAMED}{command.lstrip()}"


def _taken(block: str) -> str:
    """The file that a statement takes in with a scope of its own."""
    return block.split()[1] if block.startswith("subninja ") else ""


def _seconds(block: str, seconds: dict[str, float]) -> float:
    name = _object_of(block)
    unit = unit_of(name)
    return seconds.get(unit, seconds.get(kin_of(unit), _UNKNOWN_SECONDS)) if name else 0.0


def _files(folder: str, name: str) -> dict[str, str]:
    """The build file and those that it takes in, by the names that ninja opens them by from `folder`."""
    found = {name: _text(_place(folder, name))}
    for line in found[name].splitlines():
        word, _, file = line.partition(" ")
        if word in {"include", "subninja"}:
            found[file] = _text(_place(folder, file))
    return found


def _place(folder: str, file: str) -> str:
    return file if file.startswith("/") else f"{folder}/{file}"


def _value(args: list[str], flag: str) -> str:
    for arg, value in pairwise([*args, ""]):
        if arg == flag:
            return value
        if arg.startswith(flag) and not arg.startswith("--"):
            return arg[len(flag) :]
    return ""


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123
        return stream.read()


def _replace(path: str, text: str) -> None:
    """Put the text in the file's place, whole and with the file's own times: nothing looks newer than it is."""
    facts = os.stat(path)  # noqa: PTH116
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8") as stream:  # noqa: PTH123
        stream.write(text)
    os.utime(new, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    os.replace(new, path)  # noqa: PTH105
