"""Rules over machine code: what runs on the device as it is, what cannot, and what computes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from builder.inspect.devices import How, capability, launches
from builder.inspect.facts import FileFacts, ImageFacts, KernelFacts, ObjectFacts
from builder.report import counted
from builder.verify.expect import Expectations, Proof
from builder.verify.rules import Fault, at

_LAUNCHERS = ("__cudaRegisterFatBinary", "__cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC")

Launch = tuple[How, KernelFacts]


def label(image: ImageFacts) -> str:
    """`sm_120f` for machine code, `compute_120f` for PTX."""
    return image.arch.replace("sm_", "compute_") if image.kind == "ptx" else image.arch


def code_faults(objects: Sequence[ObjectFacts], wanted: Expectations, *, whole: bool = True) -> Iterator[Fault]:
    """Everything that the objects' device code contradicts; a proof without an object only fails a whole wheel."""
    device = capability(wanted.device)
    for found in objects:
        runs = list(launches(found.images, device).values())
        yield from _archs(found, runs, wanted, _own(found, wanted, whole=whole))
        yield from _hollow(found, runs, wanted)
    if whole:
        yield from _absent(objects, wanted)
    for proof in wanted.proofs:
        matching = [found for found in objects if at(found.path, proof.object, whole=whole)]
        if matching or whole:
            yield from _proof(matching, proof, wanted)


@dataclass(frozen=True, slots=True)
class Proven:
    """What a proof found: in one object, `kernels` that match and hold `count` such instructions natively."""

    proof: Proof
    path: str
    kernels: int
    count: int


def proven(file: FileFacts, wanted: Expectations) -> Iterator[Proven]:
    """The evidence of each proof, object by object, for people to see."""
    whole = file.wheel is not None
    for proof in wanted.proofs:
        for found in (one for one in file.objects if at(one.path, proof.object, whole=whole)):
            counts = [
                kernel.instructions().get(proof.needs, 0) for _, kernel in _matching(found, proof, wanted, "native")
            ]
            yield Proven(proof, found.path, sum(count > 0 for count in counts), sum(counts))


def _matching(found: ObjectFacts, proof: Proof, wanted: Expectations, *ways: How) -> list[Launch]:
    runs = launches(found.images, capability(wanted.device)).values()
    return [(how, k) for how, k in runs if fnmatchcase(k.name, proof.kernel) and (not ways or how in ways)]


def _archs(found: ObjectFacts, runs: Sequence[Launch], wanted: Expectations, own: Sequence[str]) -> Iterator[Fault]:
    """No code at all, none that runs there in any way, archs nobody asked for, and kernels that run otherwise."""
    have, asked = {label(image) for image in found.images}, own or wanted.archs
    said = f"asked for {', '.join(asked) or f'code that runs on {wanted.device}'}, found "
    said += ", ".join(sorted(have)) or "none"
    if not found.images:
        if own or set(_LAUNCHERS) & set(found.elf.undefined):
            does = "it is to hold kernels" if own else "it launches kernels"
            yield _arch(found, f"{does} and holds no device code; {said}", only="no-code")
        return
    if runs and all(how == "none" for how, _ in runs):
        fate = f"{counted(len(runs), 'kernel')}, none of which can run there"
        yield _arch(found, f"no code that runs on {wanted.device}: {said} ({fate})", only="none-runs")
    for name in sorted(have - set(asked)) if asked else ():
        yield _arch(found, f"code that nobody asked for ({said}):", name)
    for name in own:
        if name not in have:
            yield _arch(found, f"no code for what is asked of it ({said}):", name)
    yield from _elsewhere(found, runs, wanted)


def _own(found: ObjectFacts, wanted: Expectations, *, whole: bool) -> tuple[str, ...]:
    """The architectures that are asked of this object by itself."""
    return next((built.archs for built in wanted.built if at(found.path, built.object, whole=whole)), ())


def _absent(objects: Sequence[ObjectFacts], wanted: Expectations) -> Iterator[Fault]:
    for built in wanted.built:
        if not any(fnmatchcase(found.path, built.object) for found in objects):
            message = f"nothing is there that could hold {', '.join(built.archs)}"
            remedy = "build that part, or mend the rule in [[verify.archs]]"
            yield Fault("arch", built.object, message, remedy, only="no-object")


def _arch(found: ObjectFacts, message: str, about: str = "", only: str = "") -> Fault:
    remedy = "check the arch list that configure printed for this part, and the patches that mend arch lists"
    return Fault("arch", found.path, message, remedy, about, only=only)


def _elsewhere(found: ObjectFacts, runs: Sequence[Launch], wanted: Expectations) -> Iterator[Fault]:
    for how, kernel in runs:
        if how == "jit":
            yield Fault(
                "jit",
                found.path,
                f"kernels that {wanted.device} has to compile from PTX at load:",
                f"build them for {wanted.archs[0] if wanted.archs else wanted.device}: mend the part's arch list",
                kernel.name,
            )
        elif how == "none" and wanted.strict:
            yield Fault(
                "none",
                found.path,
                f"kernels that cannot run on {wanted.device} (they are for {kernel.arch}):",
                "build them for the device, or leave their sources out",
                kernel.name,
            )


def _hollow(found: ObjectFacts, runs: Sequence[Launch], wanted: Expectations) -> Iterator[Fault]:
    for how, kernel in runs:
        if how == "none":
            continue
        if kernel.trap_only:
            yield Fault(
                "trap",
                found.path,
                f"kernels of which no path reaches a normal end on {wanted.device}, they only trap:",
                "a guard on __CUDA_ARCH__ left them out: widen it to the device's family, or do not build them",
                kernel.name,
            )
        if kernel.empty:
            yield Fault(
                "empty",
                found.path,
                f"kernels that compute nothing on {wanted.device} and report no error:",
                "a guard on __CUDA_ARCH__ left their bodies out: widen it to the device's family",
                kernel.name,
            )


def _proof(matching: Sequence[ObjectFacts], proof: Proof, wanted: Expectations) -> Iterator[Fault]:
    kernels = [(found, *run) for found in matching for run in _matching(found, proof, wanted)]
    if not matching:
        yield _unproven(proof.object, f"nothing is there, where {proof.needs} is to be proven")
    for found in matching:
        count = sum(one is found for one, *_ in kernels)
        if count < proof.at_least:
            there = counted(count, "kernel") if count else "no kernel"
            least = f"at least {proof.at_least} are" if proof.at_least > 1 else "one is"
            yield _unproven(found.path, f"it has {there} like {proof.kernel}, where {least} to hold {proof.needs}")
    for found, how, kernel in kernels:
        if how != "native" or not kernel.instructions().get(proof.needs):
            yield Fault(
                "instruction",
                found.path,
                f"kernels like {proof.kernel} without {proof.needs} in code that runs on {wanted.device}:",
                "their source took another path: check the arch they were built for, and its guards",
                kernel.name,
            )


def _unproven(where: str, message: str) -> Fault:
    remedy = "build that part, and see which of its sources were left out; or mend the rule in [[verify.instructions]]"
    return Fault("instruction", where, message, remedy)
