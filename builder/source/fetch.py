"""Bring a package's source and prove it: digest, bundled versions, commit, tree.

What was proven once is a record in the store: a second call reads that and nothing else.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from builder.context import Context
from builder.errors import SourceError
from builder.model import Package, SourceTree
from builder.source.upstream import sdist_of
from builder.store import key_of

if TYPE_CHECKING:
    from builder.git import Objects

NO_TREE: Final = "0" * 40
"""The pin of a recipe that nobody has pinned yet."""

Mode = Literal["sdist", "git"]


def fetch_source(package: Package, context: Context, *, mode: Mode = "sdist", accept: bool = False) -> SourceTree:
    """The package's source tree, committed with a fixed date in the store's repository.

    `mode` is the sdist from the package index, or the pinned commit from the git address.
    A package with a `source` has that package's tree. `accept` takes whatever tree there is when
    the pin is still all zeros; elsewhere that is an error that prints the tree. Raises FetchError,
    DigestError, ArchiveError, SourceError (another tree, commit or bundled version than pinned),
    StoreError.
    """
    if package.source:
        package = replace(package, name=package.source, source="")
    key = _key(package, mode)
    done = _recorded(package, context, key)
    if done is None:
        with context.store.lock(f"source-{package.name}"):
            done = _recorded(package, context, key) or _bring(package, context, mode, key)
    return _pinned(done, _pin(package, mode), accept=accept)


def here(package: Package, context: Context, *, mode: Mode = "sdist") -> SourceTree | None:
    """The tree if an earlier `fetch_source` proved it and it is still in the store; fetches nothing."""
    if package.source:
        package = replace(package, name=package.source, source="")
    return _recorded(package, context, _key(package, mode))


def _pin(package: Package, mode: Mode) -> str:
    return package.git_tree or package.tree if mode == "git" else package.tree


def _key(package: Package, mode: Mode) -> str:
    origin = package.sha256 if mode == "sdist" else package.git
    proofs = (package.commit, _pin(package, mode), package.vendored, asdict(sdist_of(package.name)))
    return key_of([package.name, package.version, mode, origin, proofs])


def _recorded(package: Package, context: Context, key: str) -> SourceTree | None:
    record = context.store.record("source", key)
    git_dir = context.store.git_dir(package.name)
    if record is None or not (git_dir / "HEAD").is_file():
        return None
    return SourceTree(package.name, git_dir, str(record["commit"]), str(record["tree"]), str(record["origin"]))


def _bring(package: Package, context: Context, mode: Mode, key: str) -> SourceTree:
    """Fetch, prove, commit, record."""
    from builder.git import Objects
    from builder.source import proof, remote, sdist

    context.store.sweep()
    objects = Objects(context.store.git_dir(package.name))
    with context.report.step(f"source of {package.name} {package.version} ({mode})"), proof.full_disk_is_said(objects):
        bring = sdist.tree_of_sdist if mode == "sdist" else remote.tree_of_commit
        tree = bring(package, objects, context)
        proof.check_vendored(package, objects, tree)
        source = _commit(package, objects, tree, mode)
    context.store.keep_record("source", key, {"commit": source.commit, "tree": tree, "origin": source.origin})
    return source


def _commit(package: Package, objects: Objects, tree: str, mode: Mode) -> SourceTree:
    origin = package.sdist if mode == "sdist" else package.git
    message = f"{package.name} {package.version}\n\nUpstream-Commit: {package.commit}\nOrigin: {origin}\n"
    commit = objects.commit(tree, message)
    objects.set_ref(f"refs/spark-wheels/source/{package.version}-{mode}", commit)
    return SourceTree(package.name, Path(objects.git_dir), commit, tree, origin)


def _pinned(source: SourceTree, pin: str, *, accept: bool) -> SourceTree:
    """The source, unless the recipe has no pin for it and that was not accepted."""
    if pin == NO_TREE and not accept:
        raise SourceError(
            f"the recipe pins no tree for {source.package}",
            where=source.origin,
            expected=f"a tree; the source that came has tree {source.tree}",
            remedy=f'review it, then set tree = "{source.tree}" in the recipe',
        )
    return source
