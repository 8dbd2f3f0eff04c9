"""What a wheel must show: a frozen record, derived from a recipe's `[target]` and `[verify]`, or from a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from builder.inspect.devices import capability
from builder.model import Arch, Package, Recipe
from builder.patches.load import load_series
from builder.patches.probe import Probe


@dataclass(frozen=True, slots=True)
class Proof:
    """Every kernel that matches `kernel`, in the objects that match `object`, holds the instruction class `needs`.

    Each of these objects has `at_least` so many such kernels. Both are shell patterns; `kernel` is held against the
    mangled name, in which every identifier stands as written.
    """

    object: str
    kernel: str
    needs: str
    at_least: int = 1


@dataclass(frozen=True, slots=True)
class Built:
    """Objects that match the shell pattern `object` hold code for exactly these architectures (as `label` has them)."""

    object: str
    archs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exempt:
    """Findings that are known and accepted. `name` is a pattern over kernels and symbols, mangled.

    An exemption that is `needed` and that nothing uses is a finding itself.
    """

    object: str
    rule: str
    reason: str
    name: str = "*"
    needed: bool = True


@dataclass(frozen=True, slots=True)
class PatchProbes:
    """What one patch promises of the wheel's files, unless the build found it superseded, and the patch's digest."""

    file: str
    probes: tuple[Probe, ...]
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Expectations:
    """All that `judge` holds the facts against. Empty fields are not asked for.

    `device` is a compute capability (`12.1`), `archs` exact names as `label` gives them (`sm_121a`, `compute_120`),
    `built` those of single objects, the first that matches, `objects` one pair (component, patterns) per part that must
    be there, `max_bytes` the wheel's size limit.
    `strict` asks that every kernel runs on the device; without it, kernels for other devices may be there as well.
    `python` is one such as `3.12`.
    """

    device: str
    machine: str = ""
    python: str = ""
    archs: tuple[str, ...] = ()
    built: tuple[Built, ...] = ()
    strict: bool = False
    name: str = ""
    version: str = ""
    torch: str = ""
    cuda_major: str = ""
    objects: tuple[tuple[str, tuple[str, ...]], ...] = ()
    files: tuple[str, ...] = ()
    proofs: tuple[Proof, ...] = ()
    exempt: tuple[Exempt, ...] = ()
    patches: tuple[PatchProbes, ...] = ()
    max_bytes: int = 0


def for_device(device: str) -> Expectations:
    """What any wheel must show to run on that device as it is. Raises UsageError for a device that is none."""
    capability(device)
    return Expectations(device)


def expectations_for(recipe: Recipe, package: Package, root: Path | None = None) -> Expectations:
    """What the recipe asks of one of its wheels.

    With `root`, the folder that holds patches/, also what the package's patches expect; raises PatchError when
    one of them is missing.
    """
    first = recipe.target.cuda_arch[0]
    rules = _rules(recipe.verify, package.name)
    return Expectations(
        device=f"{first.major}.{first.minor}",
        machine=recipe.target.machine,
        python=recipe.target.python,
        archs=_archs(recipe.target.cuda_arch),
        built=tuple(Built(r["object"], _archs(map(Arch.parse, r["archs"]))) for r in rules("archs")),
        strict=True,
        name=canonicalize_name(package.name),
        version=package.version,
        torch=recipe.toolchain.torch,
        cuda_major=recipe.toolchain.cuda.partition(".")[0],
        objects=tuple((part, patterns(part)) for part in package.components),
        files=package.prebuilt.files if package.prebuilt else (),
        proofs=tuple(Proof(r["object"], r["kernel"], r["needs"], r.get("at_least", 1)) for r in rules("instructions")),
        exempt=tuple(Exempt(r["object"], r["rule"], r["reason"], r["name"]) for r in rules("exceptions")),
        patches=_probes(package, root) if root else (),
        max_bytes=_limit(recipe.verify, package.name) * 1_000_000,
    )


def patterns(component: str) -> tuple[str, ...]:
    """Where a component may lie: `_C` is `vllm/_C.abi3.so`, a FlashInfer module `…/NAME/NAME.so`."""
    return (f"{component}.so", f"{component}.*.so", f"*/{component}.so", f"*/{component}.*.so")


def _archs(wanted: Iterable[Arch]) -> tuple[str, ...]:
    names = [(arch.sm, f"compute_{arch.number}" if arch.ptx else "") for arch in wanted]
    return tuple(name for pair in names for name in pair if name)


def _rules(verify: Mapping[str, object], package: str) -> Any:  # noqa: ANN401  rows of a validated table
    def of(key: str) -> list[dict[str, Any]]:
        rows: Any = verify.get(key) or []
        return [row for row in rows if row["package"] == package]

    return of


def _limit(verify: Mapping[str, object], package: str) -> int:
    limits: Any = verify.get("max_wheel_mb") or {}
    return int(limits.get(package, 0))


def _probes(package: Package, root: Path) -> tuple[PatchProbes, ...]:
    return tuple(PatchProbes(patch.file, patch.header.expects, patch.sha256) for patch in load_series(package, root))
