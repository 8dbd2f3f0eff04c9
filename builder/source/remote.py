"""The pinned commit from its git address, and the submodules that it pins.

The `git` program moves the objects; nothing of what it fetches is run: the repository is bare
and hooks are off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from pygit2.enums import FileMode

from builder.context import Context
from builder.errors import FetchError, RunError
from builder.git import Entry, Objects
from builder.model import Package
from builder.run import masked
from builder.source.proof import check_tree

_QUIET: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=15",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
}
_OPTIONS: Final = (
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=15"),
    *("-c", "core.hooksPath=/dev/null", "-c", "protocol.version=2", "-c", "gc.auto=0"),
)
_PATIENCE: Final = ("timeout", "--kill-after=2", "17")  # git itself waits minutes for a connection


def tree_of_commit(package: Package, objects: Objects, context: Context) -> str:
    """The tree of exactly the pinned commit, its submodules in place; raises as `fetch_source`.

    The commit's own tree is compared with the pin; the submodules' commits are part of it.
    """
    bring(package.git, package.commit, objects, context)
    tree = objects.tree_of(package.commit)
    check_tree(package, objects, tree, package.git_tree or package.tree, masked(package.git))
    return with_submodules(package.git, package.commit, objects, context)


def bring(url: str, commit: str, objects: Objects, context: Context) -> None:
    """Fetch exactly that commit, shallow, unless it is here; raises FetchError within seconds."""
    if objects.has(commit):
        return
    git = ("git", f"--git-dir={objects.git_dir}", *_OPTIONS)
    env = _environment(os.environ)
    try:
        context.run([*_PATIENCE, *git, "ls-remote", "--", url, "HEAD"], env=env)
        context.run(
            [
                *git,
                "fetch",
                "--depth=1",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--",
                url,
                commit,
            ],
            env=env,
            log=context.logs / "git.log",
        )
    except RunError as error:
        raise _unreachable(url, commit, context.logs) from error


def resolve(url: str, ref: str, context: Context) -> str:
    """The commit that a ref of a remote names (an annotated tag's own commit), or nothing; raises RunError."""
    argv = [*_PATIENCE, "git", *_OPTIONS, "ls-remote", "--", url, ref, f"{ref}^{{}}"]
    lines = context.run(argv, env=_environment(os.environ)).output.splitlines()
    found = {name: commit for commit, _, name in (line.partition("\t") for line in lines)}
    return found.get(f"{ref}^{{}}") or found.get(ref, "")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """The user's environment (proxies, ssh agent), without git settings that would point elsewhere."""
    local = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
    return {name: value for name, value in env.items() if name not in local} | _QUIET


def _unreachable(url: str, commit: str, logs: Path) -> FetchError:
    return FetchError(
        f"cannot fetch commit {commit}",
        where=masked(url),
        expected=f"a git address that answers and has that commit (log: {logs / 'git.log'})",
        remedy="run again with source=sdist, which needs only the package index, or with network",
    )


def with_submodules(url: str, commit: str, objects: Objects, context: Context) -> str:
    """The commit's tree with each submodule that .gitmodules names put in the place of its link."""
    tree = objects.tree_of(commit)
    links = {path: entry.oid for path, entry in objects.files(tree).items() if entry.mode == FileMode.COMMIT}
    urls = _submodule_urls(url, commit, objects, context) if links else {}
    changes: dict[str, Entry | None] = {}
    for path in links.keys() & urls.keys():
        bring(urls[path], links[path], objects, context)
        inner = with_submodules(urls[path], links[path], objects, context)
        changes[path] = None
        changes |= {f"{path}/{name}": entry for name, entry in objects.files(inner).items()}
    return objects.edit(tree, changes) if changes else tree


def _submodule_urls(url: str, commit: str, objects: Objects, context: Context) -> dict[str, str]:
    """Address by path, as .gitmodules of the commit has it; relative ones are beside `url`."""
    if objects.entry(objects.tree_of(commit), ".gitmodules") is None:
        return {}
    command = ["git", f"--git-dir={objects.git_dir}", "config", "-z", f"--blob={commit}:.gitmodules", "--list"]
    listing = context.run(command, env=_environment(os.environ)).output
    settings = dict(item.partition("\n")[::2] for item in listing.split("\0") if item)
    paths = {key: value for key, value in settings.items() if key.startswith("submodule.") and key.endswith(".path")}
    found = {path: settings.get(f"{key.removesuffix('.path')}.url", "") for key, path in paths.items()}
    return {path: _absolute(url, address) for path, address in found.items() if address}


def _absolute(base: str, address: str) -> str:
    return urljoin(f"{base.rstrip('/')}/", address) if address.startswith(("./", "../")) else address
