"""What the line does beyond its stages' own tests: modes of source, and resuming by content."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from builder.commands import _summary
from builder.context import Context
from builder.errors import PatchError
from builder.git import Objects
from builder.model import Package, Recipe
from builder.pipeline import Built, Options, Patched, Verified, apply_patches, fetch_sources, publish_wheels
from builder.recipe import load
from tests.publish.wheels import verified
from tests.supply.wheels import wheel

ROOT = Path(__file__).parents[1]


@pytest.fixture
def upstream(tmp_path: Path) -> tuple[str, str, str]:
    """A repository by its address, its commit and its tree."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@e.invalid"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    said = [
        subprocess.run([*git, "rev-parse", ref], check=True, capture_output=True, text=True).stdout.strip()
        for ref in ("HEAD", "HEAD^{tree}")
    ]
    return f"file://{folder}", said[0], said[1]


def recipe_of(package: Package) -> Recipe:
    return replace(load("smoke", ROOT), packages=(package,))


def package_of(upstream: tuple[str, str, str], tree: str = "1" * 40, git_tree: str | None = None) -> Package:
    url, commit, own = upstream
    return Package(
        name="some",
        version="1.0",
        commit=commit,
        git=url,
        sdist="",
        sha256="",
        tree=tree,
        git_tree=own if git_tree is None else git_tree,
        result_tree="2" * 40,
    )


def options(tmp_path: Path) -> Options:
    return Options(root=tmp_path, out=tmp_path / "out", index=str(tmp_path / "index"), source="git", externals="wheel")


def test_a_commit_with_a_tree_of_its_own_needs_no_second_result_pin(
    upstream: tuple[str, str, str], context: Context, tmp_path: Path
) -> None:
    sourced = fetch_sources(recipe_of(package_of(upstream)), options(tmp_path), context)
    patched = apply_patches(sourced, options(tmp_path), context)
    assert patched.trees["some"].tree == upstream[2]
    assert Objects(patched.trees["some"].git_dir).files(upstream[2]).keys() == {"a.py"}


def test_a_build_that_waits_says_for_what_and_how_to_go_on() -> None:
    document = {
        "recipe": "arm",
        "target": {"platform": "linux-aarch64", "cuda_arch": ["12.1a"]},
        "wheels": [],
        "folder": "/out/arm/wheels",
        "index": "/out/index",
        "held": ["vllm 0.20.0 for linux-x86_64"],
    }
    text = _summary(document, nothing_to_do=True)
    assert "unchanged until it can have vllm 0.20.0 for linux-x86_64 too" in text
    assert "publish add /out/arm/wheels FOLDER recipe=arm,NAME index=/out/index" in text
    assert "http.server" not in text
    assert "http.server" in _summary(document | {"held": []}, nothing_to_do=True)


@pytest.mark.parametrize("platforms", [(), ("linux-x86_64",)])
def test_the_index_gets_all_platforms_of_a_recipe_or_none(
    context: Context, tmp_path: Path, platforms: tuple[str, ...]
) -> None:
    recipe = replace(load("aeon7", ROOT), platforms=platforms)
    recipe = replace(recipe, packages=(recipe.package("vllm"),))
    wheels = {"vllm": verified(wheel(tmp_path / "made"))}
    patched = Patched(recipe, {}, {})
    built = Built(patched, {"vllm": wheels["vllm"].wheel}, frozenset())
    where = replace(options(tmp_path), root=ROOT)
    shipped = publish_wheels(Verified(built, wheels), where, context)
    assert [path.parent for path in shipped.files] == [tmp_path / "out/aeon7/wheels"]
    assert shipped.files[0].with_name(f"{shipped.files[0].name}.provenance.json").is_file()
    assert len(shipped.held) == len(platforms)
    assert (tmp_path / "index").exists() is (not platforms)


def test_one_whose_tree_is_the_sdists_is_held_to_the_result_pin(
    upstream: tuple[str, str, str], context: Context, tmp_path: Path
) -> None:
    package = package_of(upstream, tree=upstream[2], git_tree="")
    sourced = fetch_sources(recipe_of(package), options(tmp_path), context)
    with pytest.raises(PatchError, match="another than the pinned one"):
        apply_patches(sourced, options(tmp_path), context)
