"""Rules over symbols: what each object needs, who has it, and who should have had it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import heappop, heappush

from builder.inspect.facts import ObjectFacts
from builder.verify.known import knowledge
from builder.verify.rules import Fault

_INTERPRETER = re.compile(r"_?Py[A-Z_]\w*")
_DRIVER = re.compile(r"(?:cu|nvml)[A-Z]\w*")

Hint = Callable[[str], str]
"""Mangled name → who should define it, in words, or nothing."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A library of the pinned wheels: the names that it defines for others, and its DT_NEEDED."""

    exported: frozenset[str]
    needed: tuple[str, ...] = ()


def _none(name: str) -> Provider:
    raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Shelf:
    """The libraries of the pinned wheels, read when they are asked for.

    `sizes` gives bytes by file name, `read` one library (KeyError when there is none), `owners` which of the names a
    library has, and which: name → library.
    """

    sizes: Callable[[], Mapping[str, int]] = dict
    read: Callable[[str], Provider] = _none
    owners: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}


def symbol_faults(objects: Sequence[ObjectFacts], shelf: Shelf, hint: Hint = lambda _: "") -> Iterator[Fault]:
    """Needed libraries and strong undefined symbols that nobody has: the import would fail, or the first call."""
    for found in objects:
        strange = _strange(found, objects)
        for library in sorted(strange - shelf.sizes().keys() if strange else strange):
            yield Fault(
                "library",
                found.path,
                "libraries that neither the pinned wheels, nor Linux, nor this wheel have:",
                "build it with the recipe's toolchain, or add the library's package to the lock as a target",
                library,
            )
        left = unresolved(found, objects, shelf)
        elsewhere = {name for name in left if not _DRIVER.fullmatch(name)}
        owners = shelf.owners(elsewhere) if elsewhere else {}
        for name in sorted(left):
            yield _undefined(name, found, objects, owners.get(name, ""), hint)


def unresolved(found: ObjectFacts, objects: Sequence[ObjectFacts], shelf: Shelf) -> set[str]:
    """The names that no library defines which the loader reaches from here: DT_NEEDED, whatever that needs, and so on.

    A name that only some other library of the pinned wheels has is left: the loader does not look there. What
    `known.toml` says to be loaded before, for all to see, is reached as well. Its own and small libraries are read
    first, and none once nothing is left.
    """
    left = _open(found)
    own = {name: other for other in objects if other is not found for name in _called(other)}
    seen, ways = set[str](), list[tuple[bool, int, str]]()

    def reach(names: Iterable[str], *, far: bool = True) -> None:
        for name in set(names) - seen:
            seen.add(name)
            left.difference_update(knowledge().unversioned.get(name, ()))
            if name not in knowledge().system:
                heappush(ways, (far and name not in own, 0 if name in own else shelf.sizes().get(name, 0), name))

    if left:
        reach([*found.elf.needed, *_before(found)], far=False)
    while ways and left:
        _, _, name = heappop(ways)
        if name in knowledge().driver:
            left -= {symbol for symbol in left if _DRIVER.fullmatch(symbol)}
        elif name in own:
            left -= set(own[name].elf.exported)
            reach(own[name].elf.needed)
        elif name in shelf.sizes():
            library = shelf.read(name)
            left -= library.exported
            reach(library.needed)
    return left


def _before(found: ObjectFacts) -> Iterator[str]:
    """Libraries that whoever loads the object has loaded already, for all to see."""
    for entry in knowledge().preloaded:
        needs = any(fnmatchcase(name, pattern) for name in found.elf.needed for pattern in entry.needing)
        if needs or any(fnmatchcase(name, pattern) for name in found.elf.exported for pattern in entry.exporting):
            yield entry.library


def _undefined(name: str, found: ObjectFacts, objects: Iterable[ObjectFacts], owner: str, hint: Hint) -> Fault:
    owners = [other.path for other in objects if other is not found and name in other.elf.exported]
    owners += ["the driver (libcuda.so.1, libnvidia-ml.so.1)"] if _DRIVER.fullmatch(name) else []
    owners += [owner] if owner else []
    if owners:
        message = f"undefined, and not in its DT_NEEDED is {', '.join(owners)}, which has:"
        return Fault("symbol", found.path, message, "link it with that library, and see that the linker keeps it", name)
    remedy = "build the part that defines it (configure's log says what was skipped), or do not register its op"
    return Fault("symbol", found.path, "undefined, and nobody defines:", remedy, name, hint(name))


def _open(found: ObjectFacts) -> set[str]:
    """What the object leaves to others than Linux and Python."""
    if not _linked(found):
        return set()
    names = set(found.elf.undefined)
    names -= {symbol for symbol, _, library in found.elf.versions if library in knowledge().system}
    return {name for name in names if not _INTERPRETER.fullmatch(name)}


def _linked(found: ObjectFacts) -> bool:
    """An object file before linking leaves symbols open by its nature; device code has none of the loader's."""
    return found.elf.machine != "cuda" and not found.path.rstrip(")").endswith(".o")


def _strange(found: ObjectFacts, objects: Iterable[ObjectFacts]) -> set[str]:
    own = {name for other in objects for name in _called(other)}
    return set(found.elf.needed) - knowledge().system - knowledge().driver - own


def _called(found: ObjectFacts) -> set[str]:
    return {found.elf.soname, found.path.rpartition("/")[2]} - {""}
