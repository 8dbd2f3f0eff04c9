"""Small trees in a repository of their own, and patches that real `git diff` made of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from builder.context import Context
from builder.patches import Bench as Verbs
from tests.patches.bench import Bench, Files, GitDiff
from tests.patches.world import World, verbs_of


@pytest.fixture
def bench(context: Context, tmp_path: Path) -> Bench:
    return Bench(context, tmp_path / "root")


@pytest.fixture
def git_diff(tmp_path: Path) -> GitDiff:
    """The patch that git itself makes between two sets of files."""

    def make(before: Files, after: Files, *options: str) -> bytes:
        folder = tmp_path / "diff"
        for side, files in (("a", before), ("b", after)):
            for path, data in files.items():
                target = folder / side / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            (folder / side).mkdir(parents=True, exist_ok=True)
        command = ["git", "-c", "core.quotePath=true", "diff", "--no-index", "--no-prefix", "--full-index", *options]
        done = subprocess.run([*command, "a", "b"], cwd=folder, capture_output=True, check=False)
        assert done.returncode in {0, 1}, done.stderr
        shutil.rmtree(folder)
        return done.stdout

    return make


@pytest.fixture
def world(bench: Bench, git_diff: GitDiff) -> World:
    return World(bench, git_diff)


@pytest.fixture
def verbs(world: World) -> Verbs:
    return verbs_of(world)
