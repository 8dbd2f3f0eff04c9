"""The tables of a recipe file as pydantic reads them: strict, unknown keys refused.

These models are readers only (and the source of `recipes/schema.json`); what leaves this
package is the frozen records of `builder.model`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from builder.model import Arch

PLATFORMS = ("linux-aarch64", "linux-x86_64")
VERIFY_RULES = (
    *("arch", "jit", "none", "trap", "empty", "instruction"),
    *("machine", "bundled", "cuda-major", "glibc", "library", "rpath", "symbol"),
    *("wheel-name", "wheel-version", "wheel-tags", "dist-info", "metadata", "record", "stray", "binary"),
    *("torch", "component", "patch", "size", "build-record", "sbom"),
)
"""Rules of builder.verify that an exception can name; a test there holds the two together."""
_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"


def _shaped(pattern: str, expected: str) -> AfterValidator:
    """The whole text must match; the message says what is expected and what was given."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value!r} is not {expected}")
        return value

    return AfterValidator(check)


def _hex(length: int, what: str) -> AfterValidator:
    def check(value: str) -> str:
        if re.fullmatch(f"[0-9a-f]{{{length}}}", value) is None:
            raise ValueError(f"{value!r} is not {what}: {length} lower-case hex digits, got {len(value)} characters")
        return value

    return AfterValidator(check)


def _parsed(parse: Callable[[str], object], expected: str, *errors: type[Exception]) -> AfterValidator:
    """`parse` must accept the text; its own complaint is replaced by what is expected."""

    def check(value: str) -> str:
        try:
            parse(value)
        except errors as error:
            raise ValueError(f"{value!r} is not {expected}") from error
        return value

    return AfterValidator(check)


def _platform(value: str) -> str:
    if value not in PLATFORMS:
        raise ValueError(f"{value!r} is not one of {', '.join(PLATFORMS)}")
    return value


def _one_of(known: tuple[str, ...]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(known)}")
        return value

    return AfterValidator(check)


def _arch(value: str) -> str:
    Arch.parse(value)
    return value


def distinct(values: list[str]) -> list[str]:
    """Refuse a value that is listed twice."""
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"listed twice: {', '.join(twice)}")
    return values


def _described(pattern: str = "", description: str = "") -> Any:  # noqa: ANN401  pydantic's own return type
    return Field(description=description or None, json_schema_extra={"pattern": pattern} if pattern else None)


Name = Annotated[str, _shaped(_NAME, "a normalised project name such as flashinfer-python"), _described(f"^{_NAME}$")]
Pep440 = Annotated[str, _parsed(Version, "a PEP 440 version", InvalidVersion)]
Commit = Annotated[
    str,
    _shaped(r"[0-9a-f]{10,40}", "a commit id of 40 lower-case hex digits, or an sdist's abbreviation of at least 10"),
    _described("^[0-9a-f]{10,40}$"),
]
Tree = Annotated[str, _hex(40, "a git tree id"), _described("^[0-9a-f]{40}$")]
Sha256 = Annotated[str, _hex(64, "a SHA-256"), _described("^[0-9a-f]{64}$")]
Git = Annotated[str, _shaped(r"(https|file)://[^\s@]+", "a https:// or file:// address without a login")]
SdistName = Annotated[str, _parsed(parse_sdist_filename, "an sdist's file name", InvalidSdistFilename, InvalidVersion)]
WheelName = Annotated[str, _parsed(parse_wheel_filename, "a wheel's file name", InvalidWheelFilename, InvalidVersion)]
Requires = Annotated[str, _parsed(Requirement, "a requirement such as flashinfer-cubin==0.6.8", InvalidRequirement)]
PatchName = Annotated[
    str, _shaped(r"[A-Za-z0-9_-]+/\d{4}-[A-Za-z0-9._+-]+\.patch", "a patch such as vllm/0001-slug.patch")
]
ArchName = Annotated[str, AfterValidator(_arch), _described(r"^\d{1,2}\.\d[af]?(\+PTX)?$")]
Inside = Annotated[
    str, _shaped(r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\x00\\]+", "a relative path with forward slashes that stays inside")
]
Platform = Annotated[str, AfterValidator(_platform), Field(json_schema_extra={"enum": list(PLATFORMS)})]
Image = Annotated[str, _shaped(r"[^\s@]+@sha256:[0-9a-f]{64}", "an image pinned by digest, name@sha256:…")]
Component = Annotated[str, _shaped(r"[A-Za-z0-9_.]+", "a component or module name")]
Cuda = Annotated[str, _shaped(r"\d+\.\d+\.\d+", "a CUDA release such as 13.0.2")]
DebianName = Annotated[str, _shaped(r"[a-z0-9][a-z0-9.+-]+", "the name of a Debian or Ubuntu package")]
Python = Annotated[str, _shaped(r"3\.\d{1,2}", "a Python such as 3.12")]


class Table(BaseModel):
    """A TOML table: unknown keys are faults, values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TargetTable(Table):
    """What the wheels must run on.

    `platforms` are those that an index gets together, this one among them; other recipes build for the others.
    """

    platform: Platform
    cuda_arch: Annotated[list[ArchName], AfterValidator(distinct), Field(min_length=1)]
    python: Python
    platforms: Annotated[list[Platform], AfterValidator(distinct), Field(min_length=1)] | None = None


class ToolchainTable(Table):
    """Compiler and libraries, locked."""

    cuda: Cuda
    torch: Pep440
    lock: Inside
    base_image: Image


class PrebuiltTable(Table):
    """Parts taken from an official wheel where the build cannot reach their source."""

    wheel: WheelName
    sha256: Sha256
    files: Annotated[list[Inside], AfterValidator(distinct), Field(min_length=1)]
    reason: Annotated[str, Field(min_length=1)]


class ExternalTable(Table):
    """A repository that upstream's build fetches by itself, pinned by commit, or by tag where upstream does so."""

    name: Annotated[str, _shaped(r"[A-Za-z0-9._-]+", "a name")]
    git: Git
    commit: Commit | None = None
    tag: Annotated[str, _shaped(r"[^\s~^:?*\[\\-][^\s~^:?*\[\\]*", "a git tag")] | None = None
    variable: Annotated[str, _shaped(r"[A-Z][A-Z0-9_]*", "a variable name")]
    components: list[Component] = Field(default_factory=list)
    subfolder: Inside | None = None


class ContainsTable(Table):
    """An upstream pull request that must be in the source, and how an sdist shows it (all probes must hold)."""

    pr: Annotated[int, Field(ge=1)]
    commit: Commit
    probe: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    sha256: Sha256 | None = None


class SupersededTable(Table):
    """A change that others carry and nobody here: superseded where every probe holds on upstream's tree, else needed.

    `bug` is where upstream tells of it.
    """

    name: Annotated[str, _shaped(_NAME, "lower-case words joined by dashes"), _described(f"^{_NAME}$")]
    reason: Annotated[str, Field(min_length=1)]
    probe: Annotated[list[Annotated[str, Field(min_length=1)]], AfterValidator(distinct), Field(min_length=1)]
    bug: Annotated[str, Field(min_length=1)] | None = None


class PackageTable(Table):
    """One wheel to build. With `source` the upstream pins are that package's and must not be repeated."""

    name: Name
    source: Name | None = None
    version: Pep440 | None = None
    commit: Commit | None = None
    git: Git | None = None
    sdist: SdistName | None = None
    sha256: Sha256 | None = None
    tree: Tree | None = None
    git_tree: Tree | None = None
    result_tree: Tree | None = None
    patches: Annotated[list[PatchName], AfterValidator(distinct)] | None = None
    components: Annotated[list[Component], AfterValidator(distinct)] = Field(default_factory=list)
    vendored: dict[Inside, Pep440] | None = None
    contains: list[ContainsTable] | None = None
    superseded: list[SupersededTable] | None = None
    requires: Annotated[list[Requires], AfterValidator(distinct)] = Field(default_factory=list)
    prebuilt: PrebuiltTable | None = None
    externals: list[ExternalTable] = Field(default_factory=list)


class InstructionRule(Table):
    """In the wheel of `package`, every kernel that matches `kernel` in an object that matches `object` holds `needs`.

    Patterns are shell patterns; `kernel` is held against mangled names, in which identifiers stand as written. Each of
    these objects has `at_least` so many of these kernels.
    """

    package: Name
    object: Annotated[str, Field(min_length=1)]
    kernel: Annotated[str, Field(min_length=1)] = "*"
    needs: Annotated[str, Field(min_length=1)]
    at_least: Annotated[int, Field(ge=1)] = 1


class ArchRule(Table):
    """In the wheel of `package`, objects that match `object`, a shell pattern, hold code for exactly `archs`.

    The first rule that matches an object counts; those of no rule may hold any of the architectures of [target].
    """

    package: Name
    object: Annotated[str, Field(min_length=1)]
    archs: Annotated[list[ArchName], AfterValidator(distinct), Field(min_length=1)]


class ExceptionRule(Table):
    """A finding that is known and accepted, with its reason.

    `name` narrows it to kernels or symbols (mangled), or to architectures.

    Once nothing needs it any more, it is a finding itself.
    """

    package: Name
    object: Annotated[str, Field(min_length=1)]
    rule: Annotated[str, _one_of(VERIFY_RULES), Field(json_schema_extra={"enum": list(VERIFY_RULES)})]
    name: Annotated[str, Field(min_length=1)] = "*"
    reason: Annotated[str, Field(min_length=1)]


class VerifyTable(Table):
    """What the results must show, beyond what `[target]` implies. `max_wheel_mb` is by package, in 10^6 bytes."""

    archs: list[ArchRule] = Field(default_factory=list)
    instructions: list[InstructionRule] = Field(default_factory=list)
    exceptions: list[ExceptionRule] = Field(default_factory=list)
    max_wheel_mb: dict[Name, Annotated[int, Field(gt=0)]] = Field(default_factory=dict)


class ImageTable(Table):
    """The container image: a base pinned by digest, and the lock of what the wheels need at run time.

    `packages` are installed from the base's distribution as of `snapshot`, an apt snapshot such as 20261101T000000Z.
    """

    base: Image
    lock: Inside
    packages: Annotated[list[DebianName], AfterValidator(distinct)] = Field(default_factory=list)
    snapshot: Annotated[str, _shaped(r"\d{8}T\d{6}Z", "an apt snapshot such as 20261101T000000Z")] | None = None
    jit: bool = False


class RecipeFile(Table):
    """One file under recipes/; a child of `extends` may leave out what its parent says."""

    extends: str | None = None
    packages: Annotated[list[Name], AfterValidator(distinct), Field(min_length=1)] | None = None
    revision: Annotated[int, Field(ge=1)]
    target: TargetTable
    toolchain: ToolchainTable
    package: Annotated[list[PackageTable], Field(min_length=1)]
    verify: VerifyTable = Field(default_factory=VerifyTable)
    image: ImageTable | None = None
