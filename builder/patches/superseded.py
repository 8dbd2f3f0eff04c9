"""Changes that others carry and upstream made unnecessary: asked anew of every tree, by the recipe's probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from builder.errors import PatchError
from builder.model import Superseded
from builder.patches.probe import Probe, ProbeError, parse_probe
from builder.patches.semantic import unmet
from builder.patches.state import PatchVerdict, State
from builder.patches.view import View
from builder.store import key_of


@dataclass(frozen=True, slots=True)
class Watch:
    """A change that nobody carries here, with its probes read. `sha256` is of what decides its state."""

    entry: Superseded
    probes: tuple[Probe, ...]
    sha256: str

    @property
    def name(self) -> str:
        """Its name in the recipe."""
        return self.entry.name

    def verdict(self, view: View) -> PatchVerdict:
        """`superseded` where every probe holds on upstream's tree, else `needed`, with those that do not."""
        failed = unmet(self.probes, view)
        state = State.NEEDED if failed else State.SUPERSEDED
        return PatchVerdict(self.name, self.sha256, state, reason="unmet" if failed else "", failed=failed)


def watches(entries: Sequence[Superseded]) -> tuple[Watch, ...]:
    """Read the probes of a package's entries. Raises PatchError for one that cannot be understood."""
    return tuple(_watch(entry) for entry in entries)


def _watch(entry: Superseded) -> Watch:
    try:
        probes = tuple(parse_probe(text) for text in entry.probe)
    except ProbeError as error:
        raise PatchError(
            f"superseded {entry.name}: {error}",
            where=f"superseded, name = {entry.name!r}",
            remedy="see the forms in docs/patch-engine.md",
        ) from error
    return Watch(entry, probes, key_of(list(entry.probe)))
