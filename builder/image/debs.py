"""The packages of an image's distribution, as dpkg's own list has them: what a scan for known faults asks about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser

from builder.inspect.oci import Root

_STATUS = re.compile(r"var/lib/dpkg/status(?:\.d/[^/]+)?")
_INSTALLED = "installed"


@dataclass(frozen=True, slots=True, order=True)
class DebPackage:
    """One package. `source` names the source package that it is built from, `distribution` is like `ubuntu-24.04`."""

    name: str
    version: str
    architecture: str
    source: str
    distribution: str

    @property
    def vendor(self) -> str:
        """`ubuntu` of `ubuntu-24.04`; debian where the image does not say."""
        return self.distribution.partition("-")[0] or "debian"


def packages_of(root: Root) -> tuple[DebPackage, ...]:
    """What is installed, sorted; nothing where dpkg has no list."""
    distribution = _distribution(root)
    texts = (root.text(path) or "" for path in sorted(root.texts) if _STATUS.fullmatch(path))
    found = (package for text in texts for block in text.split("\n\n") for package in _read(block, distribution))
    return tuple(sorted(set(found)))


def _read(block: str, distribution: str) -> Iterator[DebPackage]:
    """One paragraph of the list; a package that was removed or is half there is none. status.d has no states."""
    fields = HeaderParser().parsestr(block.strip("\n"))
    state = (fields.get("Status") or _INSTALLED).split()
    if fields.get("Package") and fields.get("Version") and state[-1:] == [_INSTALLED]:
        source = (fields.get("Source") or "").partition(" ")[0]
        yield DebPackage(fields["Package"], fields["Version"], fields.get("Architecture", ""), source, distribution)


def _distribution(root: Root) -> str:
    said = dict(_release(root.text("etc/os-release") or root.text("usr/lib/os-release") or ""))
    return "-".join(part for part in (said.get("ID", ""), said.get("VERSION_ID", "")) if part)


def _release(text: str) -> Mapping[str, str]:
    rows = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip().strip("\"'") for name, _, value in rows}
