"""FlashInfer's own check of its cubins' version, with and without the patch."""

from __future__ import annotations

import io
import os
import pathlib
import sys
import types
from pathlib import Path

import pytest
import pytest_socket

from builder.context import Context
from builder.git import Objects
from builder.patches import apply_series
from builder.recipe import load
from builder.report import Report
from builder.source import fetch_source
from builder.store import Store
from tests.series.extract import extract

pytestmark = pytest.mark.network
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(request: pytest.FixtureRequest) -> dict[str, bytes]:
    """flashinfer/jit/env.py as upstream ships it and as the series leaves it."""
    cache = Path(os.environ.get("SPARK_WHEELS_STORE") or request.config.cache.mkdir("series"))
    context = Context(Store(cache), cache / "logs", report=Report(io.StringIO(), github=False))
    pytest_socket.enable_socket()
    pytest_socket._remove_restrictions()
    package = load("aeon7", ROOT).package("flashinfer-python")
    source = fetch_source(package, context)
    objects = Objects(source.git_dir)
    trees = {"upstream": source.tree, "series": apply_series(package, source, context, ROOT).tree}
    found = {name: objects.entry(tree, "flashinfer/jit/env.py") for name, tree in trees.items()}
    return {name: objects.read(entry.oid) for name, entry in found.items() if entry}


@pytest.mark.parametrize(
    ("cubins", "accepted_by"), [("0.6.8", {"series"}), ("0.6.7", set()), ("0.6.8+aeon7.1", {"upstream", "series"})]
)
@pytest.mark.parametrize("name", ["upstream", "series"])
def test_cubins_of_the_same_release_are_accepted(
    name: str,
    cubins: str,
    accepted_by: set[str],
    files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("flashinfer_cubin")
    module.__dict__.update(__version__=cubins, get_cubin_dir=lambda: "/cubins")
    monkeypatch.setitem(sys.modules, "flashinfer_cubin", module)
    monkeypatch.delenv("FLASHINFER_DISABLE_VERSION_CHECK", raising=False)
    (tmp_path / "env.py").write_bytes(files[name])
    given = {"os": os, "pathlib": pathlib, "has_flashinfer_cubin": lambda: True, "flashinfer_version": "0.6.8+aeon7.1"}
    function = extract(tmp_path / "env.py", "_get_cubin_dir", given=given)["_get_cubin_dir"]
    if name in accepted_by:
        assert function() == Path("/cubins")
    else:
        with pytest.raises(RuntimeError, match="does not match"):
            function()
