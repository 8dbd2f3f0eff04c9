"""Holds configure's words against what was asked: a skipped family fails in seconds, not hours."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import CompileError
from builder.model import Arch

_TABLE = Path(__file__).with_name("families.toml")


@dataclass(frozen=True, slots=True)
class Family:
    """A group of kernels that configure must announce, for `arch` or else for the first-choice architecture."""

    name: str
    pattern: re.Pattern[str]
    arch: str = ""


class FamilyCheck:
    """Reads configure's lines as they come; `finish` raises for families never announced."""

    def __init__(self, families: Sequence[Family], arch: Arch) -> None:
        self._families = tuple(families)
        self._arch = arch
        self._seen: set[str] = set()
        self._skipped: list[str] = []
        self._done = False

    def line(self, text: str) -> None:
        """One line of the build's output; raises CompileError when a family got other archs."""
        if self._done:
            return
        if "Not building" in text:
            self._skipped.append(text.strip("- "))
        for family in self._families:
            match = family.pattern.search(text)
            if match:
                self._hold(family, match.groupdict().get("found"))
        if "Configuring done" in text:
            self.finish()

    def finish(self) -> None:
        """All of configure was read: every family must have been announced."""
        self._done = True
        missing = [family for family in self._families if family.name not in self._seen]
        if missing:
            wanted = ", ".join(sorted({family.arch or str(self._arch) for family in missing}))
            raise CompileError(
                f"configure leaves out {', '.join(family.name for family in missing)}",
                where="configure",
                expected=f"each built for {wanted}; it said: {'; '.join(self._skipped) or 'nothing of them'}",
                remedy="check that the patches which mend the arch lists are in the recipe",
            )

    def _hold(self, family: Family, found: str | None) -> None:
        self._seen.add(family.name)
        wanted = family.arch or str(self._arch)
        if found is not None and wanted not in re.findall(r"\d+\.\d[af]?(?:\+PTX)?", found):
            raise CompileError(
                f"configure builds {family.name} for {found.strip() or 'nothing'}",
                where="configure",
                expected=wanted,
                remedy="check that the patches which mend the arch lists are in the recipe",
            )


def families_for(package: str, components: Sequence[str], arch: Arch) -> list[Family]:
    """The families that these components must hold on that architecture; `archs` always."""
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8")).get(package)
    if table is None:
        return []
    wanted = [Family("the architecture list", re.compile(table["archs"]))]
    wanted += (
        Family(entry["name"], re.compile(entry["says"]), entry.get("arch", ""))
        for entry in table["family"]
        if entry["component"] in components and str(arch.major) == entry["needs"]
    )
    return wanted
