"""Rules over symbols: what each object needs, who has it, and who should have had it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from builder.inspect.facts import ObjectFacts
from builder.verify.known import knowledge
from builder.verify.rules import Fault

_INTERPRETER = re.compile(r"_?Py[A-Z_]\w*")
_DRIVER = re.compile(r"(?:cu|nvml)[A-Z]\w*")

Hint = Callable[[str], str]
"""Mangled name → who should define it, in words, or nothing."""


@dataclass(frozen=True, slots=True)
class Provided:
    """Which of the asked names and libraries the pinned torch and CUDA wheels have: name → library that has it."""

    names: Mapping[str, str] = field(default_factory=dict)
    libraries: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the wheel leaves to others: symbol names and DT_NEEDED libraries."""

    names: frozenset[str]
    libraries: frozenset[str]


def left_to_others(objects: Sequence[ObjectFacts]) -> Wanted:
    """Everything that neither the wheel, nor Linux, the driver or Python gives."""
    return Wanted(
        frozenset(name for found in objects for name in _open(found, objects)),
        frozenset(name for found in objects for name in _strange(found, objects)),
    )


def symbol_faults(objects: Sequence[ObjectFacts], provided: Provided, hint: Hint = lambda _: "") -> Iterator[Fault]:
    """Needed libraries and strong undefined symbols that nobody has: the import would fail, or the first call."""
    for found in objects:
        for library in sorted(_strange(found, objects) - provided.libraries):
            yield Fault(
                "library",
                found.path,
                "libraries that neither the pinned wheels, nor Linux, nor this wheel have:",
                "build it with the recipe's toolchain, or add the library's package to the lock as a target",
                library,
            )
        for name in sorted(_open(found, objects) - provided.names.keys()):
            yield _undefined(name, found, objects, hint)


def _undefined(name: str, found: ObjectFacts, objects: Iterable[ObjectFacts], hint: Hint) -> Fault:
    owners = [other.path for other in objects if other is not found and name in other.elf.exported]
    owners += ["the driver (libcuda.so.1, libnvidia-ml.so.1)"] if _DRIVER.fullmatch(name) else []
    if owners:
        message = f"undefined, and not in its DT_NEEDED is {', '.join(owners)}, which has:"
        return Fault("symbol", found.path, message, "link it with that library, and see that the linker keeps it", name)
    remedy = "build the part that defines it (configure's log says what was skipped), or do not register its op"
    return Fault("symbol", found.path, "undefined, and nobody defines:", remedy, name, hint(name))


def _open(found: ObjectFacts, objects: Iterable[ObjectFacts]) -> set[str]:
    system = knowledge().system
    names = set(found.elf.undefined)
    names -= {symbol for symbol, _, library in found.elf.versions if library in system}
    names -= {name for name in names if _INTERPRETER.fullmatch(name)}
    if knowledge().driver & set(found.elf.needed):
        names -= {name for name in names if _DRIVER.fullmatch(name)}
    for other in objects:
        if other is not found and _called(other) & set(found.elf.needed):
            names -= set(other.elf.exported)
    return names if _linked(found) else set()


def _linked(found: ObjectFacts) -> bool:
    """An object file before linking leaves symbols open by its nature; device code has none of the loader's."""
    return found.elf.machine != "cuda" and not found.path.rstrip(")").endswith(".o")


def _strange(found: ObjectFacts, objects: Iterable[ObjectFacts]) -> set[str]:
    own = {name for other in objects for name in _called(other)}
    return set(found.elf.needed) - knowledge().system - knowledge().driver - own


def _called(found: ObjectFacts) -> set[str]:
    return {found.elf.soname, found.path.rpartition("/")[2]} - {""}
