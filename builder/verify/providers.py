"""Symbol tables of the pinned torch and CUDA wheels, read where they lie in the store, and kept there.

A library is inflated only when a name is still open, and only once: its exported names and its DT_NEEDED stay in the
store under the wheel's digest.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from builder.context import Context
from builder.fetch import fetch
from builder.inspect import elf
from builder.inspect.zips import Archive, open_archive
from builder.model import LockedFile
from builder.store import Store, key_of
from builder.verify.symbols import Provider, Shelf

Wheel = Callable[[LockedFile], Archive]
"""Opens a wheel of the lock."""

_LISTED, _READ = 1, 2
"""Formats of what the store keeps: the libraries of a wheel, and the table of one library."""
_LIBRARY = re.compile(r"(?P<stem>lib[\w+-]+?)\.so(?:\.[\d.]+)?")


@dataclass(frozen=True, slots=True)
class Library:
    """A shared library in a wheel of the lock. `size` is in bytes, unpacked."""

    file: LockedFile
    member: str
    size: int

    @property
    def name(self) -> str:
        """Its file name, by which DT_NEEDED knows it."""
        return self.member.rpartition("/")[2]

    def likely(self, names: Iterable[str]) -> bool:
        """True when it is called as its symbols begin (cublas: cublasGemmEx)."""
        match = _LIBRARY.fullmatch(self.name)
        stem = match["stem"].removeprefix("lib") if match else self.name
        return any(name.startswith(stem) for name in names)


def shelf_of(files: Sequence[LockedFile], context: Context) -> Shelf:
    """The libraries in the wheels of the lock; a wheel is fetched, and a library read, only when it is asked for.

    Its calls raise FetchError or DigestError when a wheel cannot be had, InspectError when one is damaged.
    """

    @cache
    def wheel(file: LockedFile) -> Archive:  # torch's directory, 13,000 members, takes as long as a library
        return _archive(file, context)

    @cache
    def libraries() -> dict[str, Library]:
        return {library.name: library for file in files for library in libraries_of(file, wheel, context.store)}

    @cache
    def read(name: str) -> Provider:
        return provider(libraries()[name], wheel, context.store)

    def owners(names: Collection[str]) -> dict[str, str]:
        found, left = dict[str, str](), set(names)
        for library in sorted(libraries().values(), key=lambda one: (not one.likely(names), one.size)):
            if not left:
                break
            hits = left & read(library.name).exported
            found |= dict.fromkeys(hits, library.name)
            left -= hits
        return found

    return Shelf(cache(lambda: {name: library.size for name, library in libraries().items()}), read, owners)


def libraries_of(file: LockedFile, wheel: Wheel, store: Store) -> tuple[Library, ...]:
    """The shared libraries in a wheel, from its directory or from the record of an earlier look."""
    kept: Any = store.record(f"libraries-{_LISTED}", file.sha256)
    if kept is None:
        kept = {m.name: m.size for m in wheel(file).members if _LIBRARY.fullmatch(m.name.rpartition("/")[2])}
        store.keep_record(f"libraries-{_LISTED}", file.sha256, kept)
    return tuple(Library(file, member, size) for member, size in kept.items())


def provider(library: Library, wheel: Wheel, store: Store) -> Provider:
    """The names that a library defines for others, and what it needs itself."""

    def make(folder: Path) -> None:
        archive = wheel(library.file)
        member = next(m for m in archive.members if m.name == library.member)
        facts = elf.link_facts(elf.parse(archive.read(member), library.name))
        (folder / "names").write_text("\n".join(facts.exported))
        said = {"wheel": library.file.filename, "member": library.member, "needed": list(facts.needed)}
        (folder / "library.json").write_text(json.dumps(said))

    key = key_of(["symbols", _READ, library.file.sha256, library.member])
    kept = store.tree(f"symbols-{key[:24]}", make)
    needed = json.loads((kept / "library.json").read_text())["needed"]
    return Provider(frozenset((kept / "names").read_text().split("\n")), tuple(needed))


def _archive(file: LockedFile, context: Context) -> Archive:
    """A wheel of the lock, mapped (until the last view of it goes); fetched when the store lacks it."""
    path = fetch(file, context.store, context.report)
    with path.open("rb") as stream:
        area = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return open_archive(memoryview(area), file.filename)


def targets(files: Iterable[LockedFile], machine: str) -> Iterator[LockedFile]:
    """The wheels of a lock that are there at run time on that machine."""
    return (file for file in files if f"target-{machine}" in file.roles)
