"""The nouns that cross stages: frozen records, each a step further from recipe to index."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from builder.finding import Verdict

_ARCH = re.compile(r"(?P<major>[1-9][0-9]?)\.(?P<minor>[0-9])(?P<suffix>[af]?)(?P<ptx>\+PTX)?")


@dataclass(frozen=True, slots=True, order=True)
class Arch:
    """A compute capability as recipes and torch write it: `12.1a`, `12.0f`, `12.0+PTX`."""

    major: int
    minor: int
    suffix: str = ""
    ptx: bool = False

    @classmethod
    def parse(cls, text: str) -> Arch:
        """Read one architecture; raises ValueError with the accepted form."""
        match = _ARCH.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a compute capability such as 12.1a, 12.0f or 12.0+PTX")
        return cls(int(match["major"]), int(match["minor"]), match["suffix"], bool(match["ptx"]))

    @property
    def number(self) -> str:
        """`121a`, as in sm_121a and compute_121a."""
        return f"{self.major}{self.minor}{self.suffix}"

    @property
    def sm(self) -> str:
        """The name of its machine code, `sm_121a`."""
        return f"sm_{self.number}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}{'+PTX' if self.ptx else ''}"


@dataclass(frozen=True, slots=True)
class Target:
    """What the wheels must run on.

    `cuda_arch` is in order of preference: a kernel is built for the first entry; one whose
    source has no path for that architecture is built for the last.
    """

    platform: str
    cuda_arch: tuple[Arch, ...]
    python: str

    @property
    def machine(self) -> str:
        """`aarch64` of `linux-aarch64`."""
        return self.platform.partition("-")[2]


@dataclass(frozen=True, slots=True)
class Prebuilt:
    """Parts taken from an official wheel where upstream would fetch them from GitHub."""

    wheel: str
    sha256: str
    files: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class External:
    """A repository that upstream's build fetches by itself, pinned by `commit`, else by `tag`."""

    name: str
    git: str
    commit: str
    variable: str
    components: tuple[str, ...]
    subfolder: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Contains:
    """An upstream pull request that must be in: number, merge commit, probes, and its patch's SHA-256 if any."""

    pr: int
    commit: str
    probe: tuple[str, ...] = ()
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A change that others carry and upstream made unnecessary, as long as every probe holds on upstream's tree."""

    name: str
    reason: str
    probe: tuple[str, ...]
    bug: str = ""


@dataclass(frozen=True, slots=True)
class Package:
    """One wheel to build: upstream pins, patches and the parts wanted.

    `patches` are relative to the folder patches/, `patch_digests` their SHA-256 in the same
    order. `requires` are requirements that replace upstream's of the same project in METADATA, or
    are added. A package with a `source` is built from that package's tree and shares its pins.
    `git_tree` is the tree of `commit` where the sdist's `tree` is another: it bundles or lacks files.
    """

    name: str
    version: str
    commit: str
    git: str
    sdist: str
    sha256: str
    tree: str
    result_tree: str
    patches: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    source: str = ""
    vendored: tuple[tuple[str, str], ...] = ()
    prebuilt: Prebuilt | None = None
    externals: tuple[External, ...] = ()
    patch_digests: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    git_tree: str = ""
    contains: tuple[Contains, ...] = ()
    superseded: tuple[Superseded, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolchainPin:
    """Compiler and libraries: a locked set from the package index, or the system's CUDA."""

    cuda: str
    torch: str
    lock: str
    base_image: str = ""


@dataclass(frozen=True, slots=True)
class ImagePin:
    """The image of a recipe: its base by digest, and the lock of what our wheels need beside themselves.

    `packages` are of the base's own distribution, as they stood at `snapshot` (an apt snapshot id), for a base
    without Python. With `jit` the image can compile kernels at run time.
    """

    base: str
    lock: str
    packages: tuple[str, ...] = ()
    snapshot: str = ""
    jit: bool = False


@dataclass(frozen=True, slots=True)
class LockedFile:
    """One file of the package index, by name and digest. `roles`: host, target, build, image."""

    project: str
    version: str
    filename: str
    sha256: str
    size: int
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LockedBase:
    """An image's base: the digest that pins it, and diff_ids and variables (`NAME=value`) on the lock's platform."""

    digest: str
    layers: tuple[str, ...]
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to build, at which pins, with which patches, for which target.

    `platforms` are those that an index gets together beside the target's own: other recipes build for them.
    """

    name: str
    path: Path
    revision: int
    target: Target
    toolchain: ToolchainPin
    packages: tuple[Package, ...]
    verify: dict[str, object] = field(default_factory=dict)
    digest: str = ""
    image: ImagePin | None = None
    platforms: tuple[str, ...] = ()

    def package(self, name: str) -> Package:
        """The package of that name; raises KeyError."""
        return next(p for p in self.packages if p.name == name)


@dataclass(frozen=True, slots=True, order=True)
class Promise:
    """A wheel that an index gets together with others. Without a `version`: one at every version offered."""

    project: str
    platform: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class SourceTree:
    """An upstream tree, in the store's bare git repository `git_dir`, proven to be `tree`."""

    package: str
    git_dir: Path
    commit: str
    tree: str
    origin: str


@dataclass(frozen=True, slots=True)
class ExternalTree:
    """An external's tree, in the store's bare repository, and what it brings to the build."""

    external: External
    git_dir: Path
    tree: str


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """A patch of the series and what became of it (clean, offset, contained, superseded).

    `description`, `origin` and `bugs` (addresses) are what its header says.
    """

    file: str
    sha256: str
    state: str
    offset: int = 0
    description: str = ""
    origin: str = ""
    bugs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchedTree:
    """The source tree with the series applied, as commits with fixed dates."""

    package: str
    git_dir: Path
    commit: str
    base_tree: str
    tree: str
    applied: tuple[AppliedPatch, ...]


@dataclass(frozen=True, slots=True)
class Wheel:
    """A built wheel that nobody has checked yet."""

    path: Path
    sha256: str
    size: int
    name: str
    version: str
    tag: str


@dataclass(frozen=True, slots=True)
class VerifiedWheel:
    """A wheel with a good verdict. Only `builder.verify` makes one; a test holds it to that."""

    wheel: Wheel
    verdict: Verdict
