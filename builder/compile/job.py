"""One package's compile, as a frozen record that the drivers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.model import Arch, ExternalTree, Package, Prebuilt, Recipe


@dataclass(frozen=True, slots=True)
class Job:
    """What to compile, with what, into which folder.

    `jobs` is the number of compile units at once; `sibling_versions` the version of each
    package of the recipe by its name; `cache` the compiler cache's environment.
    """

    recipe: Recipe
    package: Package
    version: str
    toolchain: Toolchain
    context: Context
    out: Path
    jobs: int
    sibling_versions: Mapping[str, str]
    externals: tuple[ExternalTree, ...] = ()
    cache: Mapping[str, str] = field(default_factory=dict)

    @property
    def prebuilt(self) -> Prebuilt | None:
        """Parts that come from the official wheel, unless their sources were fetched."""
        return None if self.externals else self.package.prebuilt

    @property
    def first_arch(self) -> Arch:
        """The architecture that every kernel with a path for it is built for."""
        return self.recipe.target.cuda_arch[0]
