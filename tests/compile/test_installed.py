"""toolchain=system: an installed CUDA is known by its bytes, because it is updated in place under the same number."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builder.compile import installed
from builder.compile.host import Compilers
from builder.compile.installed import digest_of, installed_cuda, version_of
from builder.compile.toolchain import Kind, Toolchain, _code_key, _found_cuda, toolchain_key
from builder.context import Context
from builder.errors import ToolchainError
from builder.recipe import load, locked

ROOT = Path(__file__).parents[2]
COMPILERS = Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False)
READ = ("include/cub/cub.cuh", "nvvm/libdevice/libdevice.10.bc", "lib64/libcudart_static.a")
PROGRAMS = ("bin/nvcc", "bin/cudafe++", "bin/ptxas", "nvvm/bin/cicc")


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is laid out as CUDA's is; its nvcc only tells its version."""
    home = tmp_path / "cuda"
    for name in READ:
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name)
    for program in PROGRAMS:
        (home / program).parent.mkdir(parents=True, exist_ok=True)
        (home / program).write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
        (home / program).chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(home))
    return home


def full_key(kind: Kind) -> str:
    recipe = load("aeon7", ROOT)
    return toolchain_key(recipe, locked(recipe, ROOT), kind, COMPILERS)


def code_key(kind: Kind) -> str:
    return _code_key({}, kind, "aarch64")


@pytest.mark.parametrize("changed", [*PROGRAMS, "version.json", "bin/nvcc.profile", *READ])
@pytest.mark.parametrize("key", [full_key, code_key])
def test_each_part_that_is_updated_in_place_makes_another_toolchain(
    cuda: Path, key: Callable[[Kind], str], changed: str
) -> None:
    system, index = key("system"), key("index")
    (cuda / changed).write_text("updated")
    assert key("system") != system
    assert key("index") == index


def test_the_same_bytes_at_another_place_are_the_same(cuda: Path, tmp_path: Path) -> None:
    before = digest_of(cuda)
    cuda.rename(tmp_path / "elsewhere")
    assert digest_of(tmp_path / "elsewhere") == before


def test_without_one_it_is_said_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(installed, "_USUAL", str(tmp_path / "nowhere"))
    with pytest.raises(ToolchainError, match="no nvcc here"):
        installed_cuda()


def toolchain(cuda: Path, kind: Kind, wanted: str) -> Toolchain:
    return Toolchain("k", kind, "aarch64", wanted, "2", cuda, cuda, cuda, cuda, cuda, COMPILERS)


def test_what_is_recorded_is_the_version_that_was_found(cuda: Path, context: Context) -> None:
    system = toolchain(cuda, "system", "13.0.2")
    assert _found_cuda(system, context) == "13.0"
    (cuda / "version.json").write_text(json.dumps({"cuda": {"name": "CUDA SDK", "version": "13.0.1"}}))
    assert _found_cuda(system, context) == "13.0.1"
    assert _found_cuda(replace(system, kind="index"), context) == "13.0.2"
    (cuda / "version.json").write_text("[]")
    assert version_of(cuda, "13.0") == "13.0"


def test_another_release_is_refused(cuda: Path, context: Context) -> None:
    with pytest.raises(ToolchainError, match=r"nvcc is of CUDA 13\.0"):
        _found_cuda(toolchain(cuda, "system", "13.1.0"), context)
