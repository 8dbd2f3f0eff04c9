"""What is known of upstreams' sdists and bundled libraries, read from upstream.toml."""

from __future__ import annotations

import fnmatch
import functools
import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Sdist:
    """What an sdist adds to the repository, and the file and pattern that name its commit."""

    generated: tuple[str, ...]
    commit_file: str = ""
    commit_pattern: str = ""

    def is_generated(self, path: str) -> bool:
        """True for a path from the top folder that only the sdist has."""
        return any(fnmatch.fnmatchcase(path, pattern) for pattern in self.generated)


@dataclass(frozen=True, slots=True)
class Vendored:
    """Where a bundled library says its version."""

    file: str
    macros: tuple[str, ...]

    def version(self, header: str) -> str:
        """`4.4.2` of a header's text; empty when a macro is missing."""
        found = [re.search(rf"^\s*#\s*define\s+{macro}\s+\(?(\d+)", header, re.MULTILINE) for macro in self.macros]
        return ".".join(match[1] for match in found if match) if all(found) else ""


def sdist_of(package: str) -> Sdist:
    """What is known of a package's sdist; the default for a package that the table does not name."""
    table = _knowledge()
    own = table["package"].get(package, {})
    commit = own.get("commit", {})
    generated = (*table["default"]["generated"], *own.get("generated", ()))
    return Sdist(generated, commit.get("file", ""), commit.get("pattern", ""))


def vendored_of(folder: str) -> Vendored | None:
    """How the library in `3rdparty/<library>` says its version, or None when we do not know."""
    entry = _knowledge()["vendored"].get(folder.rpartition("/")[2])
    return None if entry is None else Vendored(entry["file"], tuple(entry["macros"]))


@functools.cache
def _knowledge() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("upstream.toml").read_text(encoding="utf-8"))
