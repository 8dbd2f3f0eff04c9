"""What a plan finds in the store, and what it says of trees that are not the pinned ones."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from builder import commands, plan
from builder.commands import Request
from builder.compile import installed
from builder.compile.host import installed_compilers
from builder.compile.kept import keep_wheel
from builder.compile.package import _content
from builder.compile.toolchain import toolchain_key
from builder.context import Context
from builder.errors import UsageError
from builder.git import EMPTY_TREE, Entry, Objects
from builder.model import PatchedTree, Recipe, SourceTree, Superseded, Wheel
from builder.patches import apply_series
from builder.recipe import load, locked
from builder.report import Report
from builder.store import sha256_of

ROOT = Path(__file__).parents[1]
PATCH = b"""Description: say two
---
--- a/x
+++ b/x
@@ -1 +1 @@
-one
+two
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one patch and the lock of aeon7."""
    lock = Path("recipes") / load("aeon7", ROOT).toolchain.lock
    for place in (tmp_path / "root" / lock, tmp_path / "root/patches/vllm/0001-two.patch"):
        place.parent.mkdir(parents=True)
    shutil.copy(ROOT / lock, tmp_path / "root" / lock)
    (tmp_path / "root/patches/vllm/0001-two.patch").write_bytes(PATCH)
    return tmp_path / "root"


@pytest.fixture
def source(context: Context, monkeypatch: pytest.MonkeyPatch) -> SourceTree:
    """vLLM as one file, and proven to be in the store."""
    objects = Objects(context.store.git_dir("vllm"))
    tree = objects.edit(EMPTY_TREE, {"x": Entry(0o100644, objects.write(b"one\n"))})
    found = SourceTree("vllm", context.store.git_dir("vllm"), "b" * 40, tree, "test")
    monkeypatch.setattr(plan, "here", lambda *_, **_mode: found)
    return found


@pytest.fixture
def recipe(source: SourceTree, root: Path, context: Context) -> Recipe:
    """aeon7 with this vLLM alone, its result pinned."""
    aeon7 = load("aeon7", ROOT)
    package = replace(
        aeon7.package("vllm"),
        tree=source.tree,
        patches=("vllm/0001-two.patch",),
        patch_digests=("0" * 64,),
        contains=(),
        superseded=(Superseded("three", "never said", ("x: not text three",)),),
        components=("cumem_allocator",),
    )
    result = apply_series(package, source, context, root, accept=True).tree
    return replace(aeon7, packages=(replace(package, result_tree=result),))


def test_a_tree_that_is_not_the_pinned_one_is_a_finding(recipe: Recipe, root: Path, context: Context) -> None:
    (package,) = recipe.packages
    wrong = replace(recipe, packages=(replace(package, result_tree="ab" * 20),))
    document = plan.plan(wrong, root, context, jobs="1")
    (finding,) = document["findings"]
    assert (finding["expected"], finding["found"]) == ("ab" * 20, package.result_tree)
    text = plan.text(document)
    assert "a build would stop: vllm: the patched tree is another than the recipe's result_tree: expected abab" in text
    assert f'next: review the series, then set result_tree = "{package.result_tree}" in the recipe' in text
    assert plan.plan(recipe, root, context, jobs="1")["findings"] == []


def test_a_patch_that_does_not_apply_is_a_finding(recipe: Recipe, root: Path, context: Context) -> None:
    (root / "patches/vllm/0001-two.patch").write_bytes(PATCH.replace(b"-one", b"-three"))
    (finding,) = plan.plan(recipe, root, context, jobs="1")["findings"]
    assert finding["message"] == "vllm: 1 of 1 patches do not apply"


def test_a_commits_own_tree_is_held_to_its_own_pin(recipe: Recipe, root: Path, context: Context) -> None:
    (package,) = recipe.packages
    own = replace(recipe, packages=(replace(package, result_tree="ab" * 20, git_tree="c" * 40),))
    assert len(plan.plan(own, root, context, jobs="1")["findings"]) == 1
    document = plan.plan(own, root, context, jobs="1", source="git")
    assert document["findings"] == []
    assert f"source: commit {package.commit} (here)" in plan.text(document)


def test_what_upstream_superseded_is_told(recipe: Recipe, root: Path, context: Context) -> None:
    assert "  three: superseded, no patch" in plan.text(plan.plan(recipe, root, context, jobs="1"))


def test_the_systems_cuda_needs_fewer_files(recipe: Recipe, root: Path, context: Context) -> None:
    ours = plan.plan(recipe, root, context, jobs="1", toolchain="index")
    own = plan.plan(recipe, root, context, jobs="1", toolchain="system")
    assert 0 < own["toolchain"]["files"] < ours["toolchain"]["files"]
    assert "toolchain: this machine's CUDA, torch" in plan.text(own)


def test_only_modules_that_are_not_built_are_said_to_be_compiled_on_the_device(context: Context) -> None:
    text = plan.text(plan.plan(load("aeon7", ROOT), ROOT, context, jobs="1"))
    (line,) = [line for line in text.splitlines() if "compiled on the device" in line]
    assert "batch_prefill_* but for 1" in line
    assert "fused_moe" not in line
    assert "fp4_gemm" not in line
    smoke = plan.text(plan.plan(load("smoke", ROOT), ROOT, context, jobs="1"))
    assert "fused_moe_120" in smoke


def test_a_plan_for_the_systems_cuda_needs_none_here(
    recipe: Recipe, root: Path, context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(installed, "_USUAL", str(tmp_path / "nowhere"))
    (package,) = plan.plan(recipe, root, context, jobs="1", toolchain="system")["packages"]
    assert not package["wheel_kept"]


def test_a_kept_wheel_is_named_and_leaves_nothing_to_compile(
    recipe: Recipe, root: Path, context: Context, source: SourceTree, tmp_path: Path
) -> None:
    compilers = installed_compilers(recipe.target.machine, context)
    if compilers is None:
        pytest.skip("needs the compiler for the target")
    (package,) = recipe.packages
    before = plan.plan(recipe, root, context, jobs="1")
    assert (before["packages"][0]["wheel_kept"], before["estimate"]["cpu_seconds"] > 0) == (False, True)
    assert "from the store: 0 of 1 wheels, 1 of 1 sources, 0 of " in plan.text(before)
    (tmp_path / "vllm-1-py3-none-any.whl").write_bytes(b"x")
    made = Wheel(tmp_path / "vllm-1-py3-none-any.whl", "", 1, "vllm", "1", "py3-none-any")
    made = replace(made, sha256=sha256_of(made.path))
    trees = {"vllm": PatchedTree("vllm", source.git_dir, "", "", package.result_tree, ())}
    key = toolchain_key(recipe, locked(recipe, root), "index", compilers)
    keep_wheel(context.store, _content(recipe, package, trees, (), key), made)
    after = plan.plan(recipe, root, context, jobs="1")
    assert (after["packages"][0]["wheel_kept"], after["estimate"]["cpu_seconds"]) == (True, 0)
    text = plan.text(after)
    assert "(its wheel is in the store)" in text
    assert "from the store: 1 of 1 wheels" in text


@pytest.mark.parametrize("option", [("source", "svn"), ("toolchain", "mine")])
def test_unknown_ways_to_build_are_refused(option: tuple[str, str]) -> None:
    request = Request((), {"recipe": "smoke", option[0]: option[1]}, Report(io.StringIO(), github=False))
    with pytest.raises(UsageError, match=f"{option[0]}={option[1]} is unknown"):
        commands.plan(request)
