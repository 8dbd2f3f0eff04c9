"""Upstream's releases, for the patch verbs: found on the package index, fetched once, kept as trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import Version

from builder.context import Context
from builder.errors import UsageError
from builder.fetch import Candidate, candidates
from builder.model import Package, SourceTree
from builder.patches import Release
from builder.source import NO_TREE, fetch_source, stated_commit


@dataclass(frozen=True, slots=True)
class IndexSources:
    """Brings the pinned tree, and other releases' trees, into the package's repository of the store."""

    context: Context

    def pinned(self, package: Package) -> SourceTree:
        """The tree at the recipe's pin."""
        return fetch_source(package, self.context)

    def release(self, package: Package, version: str) -> tuple[Package, SourceTree]:
        """Another release, with the pins that its sdist gives; raises UsageError when there is none."""
        wanted = Version(version)
        if wanted == Version(package.version):
            return package, self.pinned(package)
        offered = _sdists(package.name)
        if wanted not in offered:
            raise UsageError(
                f"{package.name} has no sdist of {version}",
                expected=f"one of {', '.join(str(known) for known in sorted(offered))}",
            )
        other = _pinned_to(package, offered[wanted])
        source = fetch_source(other, self.context, accept=True)
        return replace(other, commit=stated_commit(other, self.context), tree=source.tree), source

    def releases(self, package: Package, wanted: str) -> Sequence[Release]:
        """Every final release with an sdist that the range admits, oldest first."""
        admitted, offered = SpecifierSet(wanted), _sdists(package.name)
        versions = sorted(version for version in offered if admitted.contains(version, prereleases=False))
        return [Release(str(version), self._tree(package, offered[version])) for version in versions]

    def _tree(self, package: Package, sdist: Candidate) -> str:
        if Version(sdist.version) == Version(package.version):
            return self.pinned(package).tree
        return fetch_source(_pinned_to(package, sdist), self.context, accept=True).tree


def _sdists(project: str) -> Mapping[Version, Candidate]:
    found = {}
    for candidate in candidates(project):
        try:
            found[parse_sdist_filename(candidate.filename)[1]] = candidate
        except InvalidSdistFilename:
            continue
    return found


def _pinned_to(package: Package, sdist: Candidate) -> Package:
    return replace(
        package,
        version=sdist.version,
        sdist=sdist.filename,
        sha256=sdist.sha256,
        commit="",
        tree=NO_TREE,
        git_tree="",
        vendored=(),
    )
