"""Rules over what the loader needs: machine, libraries, CUDA's major version, glibc against the tag."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from builder.inspect.elf import MACHINES
from builder.inspect.facts import FileFacts, ObjectFacts
from builder.manylinux import levels, numbers
from builder.verify.expect import Expectations
from builder.verify.known import knowledge
from builder.verify.rules import Fault

_MAJOR = re.compile(r"(lib\w+?)(?:-[0-9a-f]{8})?\.so\.(\d{1,9})[.\d]*")
"""`libcudart.so.13`, `libcudart.so.11.0`, and `libcudart-0d1e2f3a.so.12`, as repair tools rename a copy."""

_COUNTED = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")


def link_faults(file: FileFacts, wanted: Expectations) -> Iterator[Fault]:
    """Everything that the objects' link facts contradict, except symbols."""
    machines, who = ({wanted.machine}, "the recipe") if wanted.machine else (_tagged(file), "the wheel's tag")
    for found in file.objects:
        if machines and found.elf.machine not in {*machines, "cuda"}:
            message = f"it is for {found.elf.machine}, {who} is for {', '.join(sorted(machines))}"
            yield Fault("machine", found.path, message, "check the compilers of the build: one was the host's")
        yield from _bundled(found)
        if wanted.strict:
            yield from _paths(found)
    yield from _majors(file, wanted)
    yield from _glibc(file)


def _tagged(file: FileFacts) -> set[str]:
    """The machines that a wheel's tags name; none where a tag is for any."""
    platforms = [tag.rpartition("-")[2] for tag in file.wheel.tags] if file.wheel else []
    found = {machine for each in platforms for machine in MACHINES if each.endswith(f"_{machine}")}
    return found if platforms and "any" not in platforms else set()


def _bundled(found: ObjectFacts) -> Iterator[Fault]:
    names = {found.path.rpartition("/")[2], found.elf.soname}
    if any(fnmatchcase(name, pattern) for name in names for pattern in knowledge().foreign):
        yield Fault(
            "bundled",
            found.path,
            "a library of the driver, CUDA or torch, which the user's own installation must give",
            "exclude it where the wheel is assembled",
        )


def _paths(found: ObjectFacts) -> Iterator[Fault]:
    """Folders of the machine that built it: whoever may write there on another one chooses the code that is loaded."""
    for path in found.elf.rpath:
        if not path.startswith(("$ORIGIN", "${ORIGIN}")):
            yield Fault(
                "rpath",
                found.path,
                "the loader is to look for libraries in folders outside the wheel:",
                "let the linker name none, or one that begins with $ORIGIN",
                path or "the one it is started in (an empty part)",
            )


def _majors(file: FileFacts, wanted: Expectations) -> Iterator[Fault]:
    """The CUDA libraries whose name carries CUDA's own major version; all objects must agree."""
    found = [(o.path, m[0], m[2]) for o in file.objects for name in o.elf.needed if (m := _versioned(name))]
    majors = {major for _, _, major in found}
    expected = wanted.cuda_major or (max(majors, key=int) if len(majors) > 1 else "")
    for path, library, major in found:
        if expected and major != expected:
            yield Fault(
                "cuda-major",
                path,
                f"it needs {library}, of CUDA {major}, in a wheel of CUDA {expected}",
                "a prebuilt part or a stale build folder: build it with the recipe's CUDA",
            )


def _versioned(name: str) -> re.Match[str] | None:
    match = _MAJOR.fullmatch(name)
    return match if match and match[1] in knowledge().cuda_major else None


def _glibc(file: FileFacts) -> Iterator[Fault]:
    """Each symbol version that systems of the tag need not have."""
    if file.wheel is None:
        return
    tag = ".".join(file.wheel.tags)
    for found in file.objects:
        promise = file.wheel.glibc_tag
        if not promise and found.elf.glibc and found.elf.machine != "cuda":
            message = f"the tag {tag} promises no glibc, and it needs {found.elf.glibc}"
            yield Fault("glibc", found.path, message, "let the tag say it: manylinux_2_NN, from the symbols needed")
        elif promise:
            yield from _newer(found, promise)


def _newer(found: ObjectFacts, promise: str) -> Iterator[Fault]:
    for symbol, version, library in found.elf.versions:
        if not promised(version, promise, found.elf.machine):
            yield Fault(
                "glibc",
                found.path,
                f"its tag promises glibc {promise} or newer, and {library} of that age lacks",
                "raise the tag to what the symbols need, or build on an older system",
                f"{symbol}@{version}" if symbol else version,
            )


def promised(version: str, glibc: str, machine: str) -> bool:
    """True when every system with that glibc has the symbol version (`GLIBC_2.34`, `GLIBCXX_3.4.30`).

    glibc's own count by themselves: whoever has 2.33 has all up to 2.33, and nobody promises GLIBC_PRIVATE. What has no
    number (GLIBC_ABI_DT_RELR) and those of the compiler's libraries (GLIBCXX, CXXABI, GCC …) are the ones of the
    nearest manylinux level that is not newer.
    """
    family, _, number = version.partition("_")
    if family == "GLIBC" and number != "ABI_DT_RELR":
        return bool(_COUNTED.fullmatch(number)) and numbers(number) <= numbers(glibc)
    allowed = policy(glibc, machine)
    return family not in allowed or number in allowed[family]


def policy(glibc: str, machine: str) -> Mapping[str, frozenset[str]]:
    """Family → symbol versions of the nearest level that is not newer, of the machine's first where all are."""
    known = levels(machine)
    older = [level for level in known if level.glibc <= numbers(glibc)] or known[:1]
    return older[-1].versions if older else {}
