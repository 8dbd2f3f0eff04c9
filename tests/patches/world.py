"""A series pinned at 0.20.0, the releases around it, and the verbs over both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from builder.model import Arch, Package, Recipe, SourceTree, Target, ToolchainPin
from builder.patches import Bench as Verbs
from builder.patches import Release
from tests.patches.bench import Bench, Files, GitDiff

LINES = b"".join(b"line %d\n" % n for n in range(1, 61))


def edit(data: bytes, *lines: int, word: bytes = b"row") -> bytes:
    for number in lines:
        data = data.replace(b"line %d\n" % number, b"%s %d\n" % (word, number))
    return data


class World:
    """A series pinned at 0.20.0, and releases around it."""

    def __init__(self, bench: Bench, git_diff: GitDiff) -> None:
        head = b"Superseded-When: x: text their own way\n---\n"
        self.bench = bench
        self.names = (
            bench.save("0001-ten.patch", git_diff({"x": LINES}, {"x": edit(LINES, 10)})),
            bench.save("0002-forty.patch", head + git_diff({"x": edit(LINES, 10)}, {"x": edit(LINES, 10, 40)})),
        )
        self.files: dict[str, Files] = {
            "0.9": {"y": LINES},
            "0.20.0": {"x": LINES},
            "0.20.1": {"x": b"top\n" + LINES},
            "0.21.0": {"x": edit(LINES, 10)},
            "0.100": {"x": edit(LINES, 10).replace(b"line 40\n", b"their own way\n")},
        }
        done = bench.tree({"x": edit(LINES, 10, 40)})
        self.package = bench.package(*self.names, result=done)

    def release(self, version: str) -> Release:
        return Release(version, self.bench.tree(self.files[version]))

    def all(self) -> list[Release]:
        return [self.release(version) for version in reversed(self.files)]


class Upstream:
    """Releases of the world, as the caller of the verbs brings them."""

    def __init__(self, world: World) -> None:
        self.world = world

    def pinned(self, package: Package) -> SourceTree:
        return self.world.bench.source(self.world.release(package.version).tree)

    def release(self, package: Package, version: str) -> tuple[Package, SourceTree]:
        release = self.world.release(version)
        target = replace(package, version=version, sdist="s.tar.gz", sha256="0" * 64, tree=release.tree)
        return target, self.world.bench.source(release.tree)

    def releases(self, package: Package, wanted: str) -> Sequence[Release]:
        del package, wanted
        return self.world.all()


def package_of(document: dict[str, object]) -> Any:  # noqa: ANN401  a JSON document
    """The one package of a document that the verbs made."""
    packages: Any = document["packages"]
    (package,) = packages
    return package


def verbs_of(world: World) -> Verbs:
    """The verbs over a recipe with the world's package alone."""
    target = Target("linux-aarch64", (Arch(12, 1, "a"),), "3.12")
    recipe = Recipe("small", world.bench.root / "r.toml", 1, target, ToolchainPin("13", "2", ""), (world.package,))
    table = '[[package]]\nname = "vllm"\nversion = "0.20.0"\npatches = ["0001-ten.patch", "0002-forty.patch"]\n'
    recipe.path.write_text(table)
    return Verbs(recipe, world.bench.context, world.bench.root, Upstream(world), recipe.path)
