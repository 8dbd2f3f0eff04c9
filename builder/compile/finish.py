"""Linked objects made ready for a wheel: stripped and packed, and kept by their content.

An object that is linked from the same parts has the same bytes, and costs one digest the next time.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from builder.compile.host import Compilers
from builder.compile.zipwrite import FORM, Packed, pack
from builder.context import Context
from builder.inspect import elf
from builder.inspect.facts import ElfFacts
from builder.store import Store, key_of

_KIND, _NEEDS = "packed-object", "object-needs"
_STRIP = "--strip-unneeded"


@dataclass(frozen=True)
class Finisher:
    """Strips and packs objects with one compiler's tools; `scratch` is a folder of its own."""

    scratch: Path
    compilers: Compilers
    context: Context
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @cached_property
    def _tool(self) -> str:
        return self.context.run([self.compilers.strip, "--version"]).output.partition("\n")[0]

    def finished(self, name: str, data: bytes) -> Packed:
        """The object without local symbols, which carry nvcc's temporary names and differ from build to build."""
        return self._once([hashlib.sha256(data).hexdigest(), self._tool, _STRIP], name, lambda: self._stripped(data))

    def packed(self, name: str, archive: str, read: Callable[[], bytes]) -> Packed:
        """The file of that name in the archive of that digest, as it is; `read` gives its bytes."""
        return self._once([archive, name], name, read)

    def needs(self, name: str, packed: Packed) -> ElfFacts:
        """Machine, libraries and symbol versions that an object asks for; read once, as unpacking takes longest."""
        key, store = key_of([packed.sha256.hex(), _reader()]), self.context.store
        kept = _needs(store.record(_NEEDS, key) or {})
        if kept is not None:
            return kept
        said = elf.link_facts(elf.parse(memoryview(packed.read()), name))
        store.keep_record(_NEEDS, key, {"machine": said.machine, "needed": said.needed, "versions": said.versions})
        return ElfFacts(said.machine, needed=said.needed, versions=said.versions)

    def _once(self, of: list[str], name: str, make: Callable[[], bytes]) -> Packed:
        key = key_of([*of, FORM])
        kept = _kept(self.context.store, key, name)
        if kept is not None:
            return kept
        packed = pack(name, make(), 0o755)
        _keep(self.context.store, key, packed)
        return packed

    def _stripped(self, data: bytes) -> bytes:
        place = self.scratch / f"{next(self._numbers)}.so"
        place.write_bytes(data)
        self.context.run([self.compilers.strip, _STRIP, place])
        return place.read_bytes()


def _keep(store: Store, key: str, packed: Packed) -> None:
    blob = store.put([packed.data])
    facts = {"blob": blob.name, "crc": packed.crc, "size": packed.size, "sha256": packed.sha256.hex()}
    store.keep_record(_KIND, key, facts)


def _kept(store: Store, key: str, name: str) -> Packed | None:
    """The object as it was packed, unless what is on the disk is not what was put there."""
    record = store.record(_KIND, key) or {}
    blob, crc, size, sha256 = (record.get(field) for field in ("blob", "crc", "size", "sha256"))
    path = store.blob(str(blob))
    if path is None or not isinstance(crc, int) or not isinstance(size, int) or not isinstance(sha256, str):
        return None
    data = path.read_bytes()
    whole = hashlib.sha256(data).hexdigest() == path.name
    return Packed(name, 0o755, data, crc, size, bytes.fromhex(sha256)) if whole else None


def _needs(record: Mapping[str, object]) -> ElfFacts | None:
    machine, needed, versions = (record.get(field) for field in ("machine", "needed", "versions"))
    if not isinstance(machine, str) or not isinstance(needed, list) or not isinstance(versions, list):
        return None
    return ElfFacts(machine, needed=tuple(needed), versions=tuple(tuple(each) for each in versions))


@cache
def _reader() -> str:
    """The code that read what is kept: what another read is not trusted."""
    return hashlib.sha256(Path(elf.__file__).read_bytes()).hexdigest()
