"""FlashInfer's own check of its cubins' version, with and without the patch."""

from __future__ import annotations

import os
import pathlib
import sys
import types
from pathlib import Path

import pytest

from tests.series.conftest import FileOf
from tests.series.extract import extract

pytestmark = pytest.mark.network


@pytest.mark.parametrize(
    ("cubins", "accepted_by"), [("0.6.8", {"series"}), ("0.6.7", set()), ("0.6.8+aeon7.1", {"upstream", "series"})]
)
def test_cubins_of_the_same_release_are_accepted(
    which: str, cubins: str, accepted_by: set[str], flashinfer: FileOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("flashinfer_cubin")
    module.__dict__.update(__version__=cubins, get_cubin_dir=lambda: "/cubins")
    monkeypatch.setitem(sys.modules, "flashinfer_cubin", module)
    monkeypatch.delenv("FLASHINFER_DISABLE_VERSION_CHECK", raising=False)
    given = {"os": os, "pathlib": pathlib, "has_flashinfer_cubin": lambda: True, "flashinfer_version": "0.6.8+aeon7.1"}
    function = extract(flashinfer("flashinfer/jit/env.py"), "_get_cubin_dir", given=given)["_get_cubin_dir"]
    if which in accepted_by:
        assert function() == Path("/cubins")
    else:
        with pytest.raises(RuntimeError, match="does not match"):
            function()
