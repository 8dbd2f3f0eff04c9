"""Repositories that upstream's build would fetch by itself: pinned, from git where it can be reached."""

from __future__ import annotations

from typing import Literal

from builder.context import Context
from builder.errors import FetchError, RunError, SourceError
from builder.git import Objects
from builder.model import External, ExternalTree, Package
from builder.source.remote import bring, resolve, with_submodules

ExternalsMode = Literal["auto", "git", "wheel"]


def fetch_externals(package: Package, context: Context, *, mode: ExternalsMode) -> tuple[ExternalTree, ...]:
    """The package's externals, all or none: none means the recipe's prebuilt wheel stands in.

    `auto` takes git when every external can be fetched, and says so when not; `git` raises
    FetchError then. What was decided once for these pins stays decided, so that a second build
    does the same as the first.
    """
    if mode == "wheel" or not package.externals:
        return ()
    pins = "-".join(external.commit or external.tag for external in package.externals)
    decided = context.store.record("externals", f"{package.name}-{pins}")
    if mode == "auto" and decided is not None and decided["from"] == "wheel":
        return ()
    try:
        trees = tuple(_fetch(external, context) for external in package.externals)
    except FetchError as error:
        if mode == "git" or package.prebuilt is None:
            raise
        context.report.note(f"{package.name}: {error.what}; parts of {package.prebuilt.wheel} stand in")
        context.store.keep_record("externals", f"{package.name}-{pins}", {"from": "wheel", "because": error.what})
        return ()
    context.store.keep_record("externals", f"{package.name}-{pins}", {"from": "git"})
    return trees


def _fetch(external: External, context: Context) -> ExternalTree:
    objects = Objects(context.store.git_dir(external.name))
    with context.store.lock(f"git-{external.name}"):
        commit = external.commit or _commit_of_tag(external, context)
        bring(external.git, commit, objects, context)
        tree = with_submodules(external.git, commit, objects, context)
    return ExternalTree(external, objects.git_dir, tree)


def _commit_of_tag(external: External, context: Context) -> str:
    key = f"{external.name}-{external.tag}"
    known = context.store.record("tags", key)
    if known is not None:
        return str(known["commit"])
    try:
        commit = resolve(external.git, f"refs/tags/{external.tag}", context)
    except RunError as error:
        raise FetchError(
            f"cannot ask for tag {external.tag}", where=external.git, remedy="run again with network"
        ) from error
    if not commit:
        raise SourceError(
            f"no tag {external.tag}", where=external.git, remedy="correct the external's tag in the recipe"
        )
    context.store.keep_record("tags", key, {"commit": commit})
    return commit
