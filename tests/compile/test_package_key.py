import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grimp
import pytest

from builder.compile import package as packaging
from builder.compile import vllm
from builder.compile.host import Compilers
from builder.compile.job import Job
from builder.compile.kept import keep_wheel
from builder.compile.package import DRIVERS, Order, _code, _job, _key, _versions, compile_package, compile_share
from builder.compile.shard import Share
from builder.compile.shared import Shared
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.errors import CompileError
from builder.git import EMPTY_TREE
from builder.model import PatchedTree, Wheel
from builder.recipe import NAMED, load
from builder.store import key_of

ROOT = Path(__file__).parents[2]


def test_a_wheel_depends_on_versions_that_it_names_and_on_no_other() -> None:
    recipe = load("smoke", ROOT)
    ours = recipe.package("vllm")
    changed = tuple(replace(p, result_tree="0" * 40) if p is ours else p for p in recipe.packages)
    other = replace(recipe, packages=changed)
    for name in ("flashinfer-python", "flashinfer-jit-cache"):
        assert _versions(recipe, recipe.package(name)) == _versions(other, other.package(name))
    assert _versions(recipe, ours) != _versions(other, other.package("vllm"))
    assert set(_versions(recipe, ours)) == set(DRIVERS)


def test_every_driver_says_which_versions_its_wheels_name() -> None:
    assert NAMED.keys() == DRIVERS.keys()


def test_our_own_code_that_reaches_a_wheel_is_in_its_key() -> None:
    """All that the compiling imports of ours, but for what only says, finds or fetches by digest."""
    graph = grimp.build_graph("builder", cache_dir=None)
    makers = [name for name in graph.modules if name.startswith(("builder.compile", "builder.supply"))]
    below = {each for name in makers for each in graph.find_upstream_modules(name)}
    aside = ("context", "errors", "fetch", "finding", "model", "recipe", "report", "store")
    reaching = {name for name in below if not name.startswith(tuple(f"builder.{each}" for each in aside))} - {"builder"}
    files = {f"{name.removeprefix('builder.').replace('.', '/')}.py" for name in reaching}
    keyed = set(_code())
    assert {name for name in files if (ROOT / "builder" / name).is_file()} <= keyed
    assert {"compile/tags.py", "compile/facade/cmake_door.py", "supply/sbom.py", "recipe/label.py"} <= keyed
    assert "supply/known.toml" in keyed


def test_code_that_is_edited_while_a_build_runs_is_not_what_made_its_wheels(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _key(order)
    monkeypatch.setattr(packaging, "_code", lambda: {"compile/tags.py": "edited"})
    assert _key(order) == before
    monkeypatch.setattr(packaging, "_RUNNING", "another start")
    assert _key(order) != before


@pytest.fixture
def order(context: Context) -> Order:
    recipe, folder = load("smoke", ROOT), context.store.root
    package = replace(recipe.package("vllm"), vendored=())
    recipe = replace(recipe, packages=(package,))
    compilers = Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False)
    places = (folder, folder, folder, folder, folder)
    toolchain = Toolchain("k", "index", "aarch64", "13", "2", *places, compilers)
    trees = {"vllm": PatchedTree("vllm", context.store.git_dir("vllm"), "", EMPTY_TREE, EMPTY_TREE, ())}
    return Order(recipe, package, trees, (), toolchain, 1, {})


def test_a_share_is_compiled_though_its_wheel_is_kept_here(
    order: Order, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vllm-1-py3-none-any.whl"
    path.write_bytes(b"wheel")
    keep_wheel(context.store, _key(order), Wheel(path, hashlib.sha256(b"wheel").hexdigest(), 5, "vllm", "1", "any"))
    assert compile_package(order, context).cached
    asked: list[Share] = []

    def units(_job: Job, _trees: Mapping[str, PatchedTree], share: Share) -> Shared:
        asked.append(share)
        return Shared(("x.o",), 2)

    monkeypatch.setattr(packaging, "SHARES", {"vllm": units})
    assert compile_share(order, Share(1, 2), context) == Shared(("x.o",), 2)
    assert asked == [Share(1, 2)]


def test_what_the_units_read_is_laid_out_while_their_build_folder_is_held(
    order: Order, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a build with another CUTLASS changes the headers under one that compiles."""
    seen: list[str] = []

    @contextmanager
    def held(*_: object) -> Iterator[Path]:
        seen.append("held")
        yield tmp_path

    def cutlass(*_: object) -> Path:
        seen.append("cutlass")
        raise CompileError("far enough")

    monkeypatch.setattr(vllm, "workplace", held)
    monkeypatch.setattr(vllm, "cutlass_folder", cutlass)
    with pytest.raises(CompileError, match="far enough"):
        vllm.build(_job(order, tmp_path / "out", context), order.trees)
    assert seen == ["held", "cutlass"]


def test_the_settings_of_a_cross_build_are_in_the_key_of_its_parts(
    order: Order, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "cutlass_tree", lambda _: "tree")
    job = _job(order, tmp_path / "out", context)
    before = key_of(vllm._reached(job, order.trees))
    monkeypatch.setattr(vllm, "cmake_toolchain", lambda _: "set(CMAKE_SYSTEM_NAME Other)")
    assert key_of(vllm._reached(job, order.trees)) != before
