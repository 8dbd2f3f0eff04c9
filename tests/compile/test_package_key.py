import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from builder.compile import package as packaging
from builder.compile.host import Compilers
from builder.compile.job import Job
from builder.compile.kept import keep_wheel
from builder.compile.package import DRIVERS, Order, _key, _versions, compile_package, compile_share
from builder.compile.shard import Share
from builder.compile.shared import Shared
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.git import EMPTY_TREE
from builder.model import PatchedTree, Wheel
from builder.recipe import NAMED, load

ROOT = Path(__file__).parents[2]


def test_a_wheel_depends_on_versions_that_it_names_and_on_no_other() -> None:
    recipe = load("smoke", ROOT)
    vllm = recipe.package("vllm")
    changed = tuple(replace(p, result_tree="0" * 40) if p is vllm else p for p in recipe.packages)
    other = replace(recipe, packages=changed)
    for name in ("flashinfer-python", "flashinfer-jit-cache"):
        assert _versions(recipe, recipe.package(name)) == _versions(other, other.package(name))
    assert _versions(recipe, vllm) != _versions(other, other.package("vllm"))
    assert set(_versions(recipe, vllm)) == set(DRIVERS)


def test_every_driver_says_which_versions_its_wheels_name() -> None:
    assert NAMED.keys() == DRIVERS.keys()


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
