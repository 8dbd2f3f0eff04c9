"""The pinned commit from a real repository at a file:// address, with its submodules."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from builder.context import Context
from builder.errors import FetchError, SourceError
from builder.git import Objects
from builder.model import Package
from builder.source import fetch_source, remote


class Shelf(Protocol):
    def package(self, sha256: str) -> Package: ...


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "protocol.file.allow=always")
    command = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path, files: Mapping[str, str]) -> str:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "config", "uploadpack.allowReachableSHA1InWant", "true")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "files")
    return git(folder, "rev-parse", "HEAD")


class Upstream:
    """A repository `up` with a bundled library as submodule, and the package that pins it."""

    def __init__(self, root: Path, shelf: Shelf, header: str) -> None:
        self.folder = root / "up"
        self.library = root / "cutlass.git"
        self.library_commit = repository(self.library, {"include/cutlass/version.h": header.format(4, 4, 2)})
        repository(self.folder, {"README.md": "kernels\n"})
        git(self.folder, "submodule", "add", "-q", f"file://{self.library}", "3rdparty/cutlass")
        git(self.folder, "config", "-f", ".gitmodules", "submodule.3rdparty/cutlass.url", "../cutlass.git")
        git(self.folder, "commit", "-q", "-a", "-m", "bundle")
        self.commit = git(self.folder, "rev-parse", "HEAD")
        (self.folder / "README.md").write_text("later\n")
        git(self.folder, "commit", "-q", "-a", "-m", "later")
        tree = git(self.folder, "rev-parse", f"{self.commit}^{{tree}}")
        self.package = replace(
            shelf.package("0" * 64), git=f"file://{self.folder}", commit=self.commit, tree="2" * 40, git_tree=tree
        )


@pytest.fixture
def upstream_repo(tmp_path: Path, shelf: Shelf, header: str) -> Upstream:
    return Upstream(tmp_path, shelf, header)


def test_exactly_the_pinned_commit_with_its_submodules(upstream_repo: Upstream, context: Context) -> None:
    source = fetch_source(upstream_repo.package, context, mode="git")
    objects = Objects(source.git_dir)
    assert set(objects.files(source.tree)) == {
        ".gitmodules",
        "3rdparty/cutlass/include/cutlass/version.h",
        "README.md",
    }
    readme = objects.entry(source.tree, "README.md")
    assert readme is not None
    assert objects.read(readme.oid) == b"kernels\n"
    log = ["git", f"--git-dir={source.git_dir}", "rev-list", "--count", upstream_repo.commit]
    assert subprocess.run(log, check=True, capture_output=True, text=True).stdout.strip() == "1", "shallow"


def test_what_is_here_is_not_fetched_again(upstream_repo: Upstream, context: Context) -> None:
    first = fetch_source(upstream_repo.package, context, mode="git")
    upstream_repo.folder.rename(upstream_repo.folder.with_name("gone"))
    upstream_repo.library.rename(upstream_repo.library.with_name("gone too"))
    assert fetch_source(upstream_repo.package, context, mode="git") == first
    for record in (context.store.root / "records" / "source").iterdir():
        record.unlink()
    assert fetch_source(upstream_repo.package, context, mode="git") == first


def test_another_tree_is_refused(upstream_repo: Upstream, context: Context) -> None:
    with pytest.raises(SourceError, match="another tree"):
        fetch_source(replace(upstream_repo.package, git_tree="3" * 40), context, mode="git")


def test_a_bundled_library_of_another_version_is_refused(upstream_repo: Upstream, context: Context) -> None:
    package = replace(upstream_repo.package, vendored=(("3rdparty/cutlass", "4.2.1"),))
    with pytest.raises(SourceError, match=r"bundles 3rdparty/cutlass 4\.4\.2, not 4\.2\.1"):
        fetch_source(package, context, mode="git")


def test_a_commit_that_is_not_there(upstream_repo: Upstream, context: Context) -> None:
    with pytest.raises(FetchError, match="cannot fetch commit 4444") as caught:
        fetch_source(replace(upstream_repo.package, commit="4" * 40), context, mode="git")
    assert "source=sdist" in caught.value.remedy


def test_a_submodule_address_cannot_start_a_program(tmp_path: Path, upstream_repo: Upstream, context: Context) -> None:
    evil = tmp_path / "evil"
    git(upstream_repo.folder, "config", "-f", ".gitmodules", "submodule.3rdparty/cutlass.url", f"ext::touch {evil}")
    git(upstream_repo.folder, "commit", "-q", "-a", "-m", "evil")
    commit = git(upstream_repo.folder, "rev-parse", "HEAD")
    tree = git(upstream_repo.folder, "rev-parse", "HEAD^{tree}")
    with pytest.raises(FetchError, match="cannot fetch commit"):
        fetch_source(replace(upstream_repo.package, commit=commit, git_tree=tree), context, mode="git")
    assert not evil.exists()


def test_a_silent_host_is_given_up_and_names_the_other_way(
    upstream_repo: Upstream, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_PATIENCE", ("timeout", "--kill-after=1", "1"))
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    start = time.monotonic()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        package = replace(upstream_repo.package, git=f"https://127.0.0.1:{silent.getsockname()[1]}/x.git")
        with pytest.raises(FetchError) as caught:
            fetch_source(package, context, mode="git")
    assert "source=sdist" in caught.value.remedy
    assert time.monotonic() - start < 5
