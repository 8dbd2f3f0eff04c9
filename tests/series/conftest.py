"""vLLM and FlashInfer as upstream ships them and as the series leave them, and what their own code does there."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_socket

from builder.context import Context
from builder.git import Objects
from builder.patches.series import apply_series
from builder.recipe import load
from builder.report import Report
from builder.source import fetch_source
from builder.store import Store

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PYTHON = "SPARK_WHEELS_SERIES_PYTHON"
STORE = "SPARK_WHEELS_STORE"

Probes = dict[str, dict[str, Any]]
FileOf = Callable[[str], Path]
"""Gives a file of a tree, by its path there."""


def _context(request: pytest.FixtureRequest) -> Context:
    """A store for sources, and the network for those that it lacks."""
    cache = os.environ.get(STORE) or str(request.config.cache.mkdir("series"))
    pytest_socket.enable_socket()
    pytest_socket._remove_restrictions()
    return Context(Store(Path(cache)), Path(cache) / "logs", report=Report(io.StringIO(), github=False))


@pytest.fixture(scope="session")
def trees(request: pytest.FixtureRequest) -> dict[str, Path]:
    """The trees by name: `upstream`, and `series` with every patch of the folder applied in order."""
    context = _context(request)
    package = next(p for p in load("aeon7", ROOT).packages if p.name == "vllm")
    package = replace(package, patches=tuple(sorted(p.name for p in (ROOT / "patches/vllm").glob("*.patch"))))
    source = fetch_source(package, context, accept=True)
    patched = apply_series(package, source, context, ROOT, accept=True)
    objects = Objects(source.git_dir)
    return {
        name: context.store.tree(f"series-{tree}", lambda folder, tree=tree: _checkout(objects, tree, folder))  # type: ignore[misc]
        for name, tree in (("upstream", source.tree), ("series", patched.tree))
    }


def _checkout(objects: Objects, tree: str, folder: Path) -> None:
    objects.checkout(tree, folder / "tree")


@pytest.fixture(params=["upstream", "series"])
def tree(request: pytest.FixtureRequest, trees: dict[str, Path]) -> Path:
    """Each tree in turn; `is_patched` tells which."""
    return trees[request.param] / "tree"


@pytest.fixture
def is_patched(tree: Path, trees: dict[str, Path]) -> bool:
    return tree.parent == trees["series"]


@pytest.fixture(scope="session")
def all_probes(trees: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Probes]:
    """What the probes saw on each tree, by the interpreter that has vLLM's requirements."""
    python = os.environ.get(PYTHON)
    if not python:
        pytest.skip(f"{PYTHON} names no interpreter with tests/series/requirements.txt; run nox -s series")
    return {
        place / "tree": _probe(python, place / "tree", tmp_path_factory.mktemp("probe")) for place in trees.values()
    }


def _probe(python: str, tree: Path, work: Path) -> Probes:
    cpu = work / "vllm-0.20.0+cpu.dist-info"
    cpu.mkdir()
    (cpu / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.20.0+cpu\n")
    done = subprocess.run(
        [python, HERE / "probes.py", work / "out.json"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "PYTHONPATH": os.pathsep.join(map(str, (work, HERE / "stand_ins", tree))),
            "PYTHONPYCACHEPREFIX": str(tree.parent / "pycache"),
            "VLLM_LOGGING_LEVEL": "ERROR",
            "HF_HUB_OFFLINE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: Probes = json.loads((work / "out.json").read_text())
    return found


@pytest.fixture
def probes(tree: Path, all_probes: dict[Path, Probes]) -> Probes:
    return all_probes[tree]


@pytest.fixture(scope="session")
def flashinfers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileOf]:
    """FlashInfer's files as upstream ships them, and as the series leaves them."""
    context = _context(request)
    package = load("aeon7", ROOT).package("flashinfer-python")
    source = fetch_source(package, context)
    patched = apply_series(package, source, context, ROOT, accept=True)
    folder, objects = tmp_path_factory.mktemp("flashinfer"), Objects(source.git_dir)

    def file(tree: str, path: str) -> Path:
        place, entry = folder / tree / path, objects.entry(tree, path)
        assert entry is not None, path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(objects.read(entry.oid))
        return place

    return {"upstream": partial(file, source.tree), "series": partial(file, patched.tree)}


@pytest.fixture(params=["upstream", "series"])
def which(request: pytest.FixtureRequest) -> str:
    """Each of the two in turn."""
    return str(request.param)


@pytest.fixture
def flashinfer(which: str, flashinfers: dict[str, FileOf]) -> FileOf:
    return flashinfers[which]
