"""Holds `inspect` against NVIDIA's own disassembler, image by image and kernel by kernel; or PTX against machine code.

    python benchmarks/agreement.py [--cuobjdump PATH] [--jobs N] [--only PATTERN] WHEEL…
    python benchmarks/agreement.py --twins [--only PATTERN] WHEEL…

The first needs cuobjdump and nvdisasm of CUDA 13.2 or later (packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm;
older ones print sm_120f as sm_120). Every binary with device code is disassembled whole, which takes minutes for a
large wheel. Which functions are kernels is asked of cuobjdump too, so one that `inspect` misses is a difference.

`--twins` reads every PTX text (level "all") and compares it with the machine code of the same architecture in the same
container: the names of its kernels, and of each the counts and whether it is trap-only or empty. That is what lets
`inspect` take the facts of such PTX from the machine code. It needs no other tool.

Prints one line per binary and exits 1 when any differs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from builder.inspect import CLASSES, ImageFacts, KernelFacts, ObjectFacts, inspect_path
from builder.inspect.devices import number

Image = tuple[str, tuple[tuple[str, tuple[int, ...]], ...], tuple[int, ...]]
"""Architecture, (kernel, counts) sorted, counts of the whole image."""

OLDEST = 75
KERNEL = re.compile(rb"FUNC\s+\S+\s+\S+\s+ENTRY\s+(\S+)$")
MNEMONIC = re.compile(rb"\*/\s+(?:@!?U?P\w+ +)?((?:[OQHI]MMA|[HIQ]GMMA|UTC[A-Z]*MMA|F2FP|BPT\.TRAP)\b[\w.]*)")


@dataclass
class Dump:
    """One image as cuobjdump prints it."""

    arch: str = ""
    functions: dict[str, Counter[str]] = field(default_factory=dict)
    kernels: set[str] = field(default_factory=set)


def class_of(mnemonic: bytes) -> str:
    """The class that a printed mnemonic belongs to; empty for other converts."""
    text = mnemonic.decode()
    head = text.partition(".")[0]
    if head.startswith("UTC"):
        return "UTCMMA"
    if head == "F2FP":
        return "F2FP.E2M1" if ".E2M1" in text else "F2FP.FP8" if ".E4M3" in text or ".E5M2" in text else ""
    return "BPT.TRAP" if head == "BPT" else head


def printed_by(cuobjdump: str, what: str, path: Path, arch: str) -> Iterator[bytes]:
    """The lines that cuobjdump prints of a binary, or of one architecture's code in it."""
    command = [cuobjdump, what, *(("-arch", arch) if arch else ()), str(path)]
    beside = {**os.environ, "PATH": f"{Path(cuobjdump).resolve().parent}:{os.environ['PATH']}"}  # it calls nvdisasm
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=1 << 20, env=beside) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise SystemExit(f"{cuobjdump} {what} failed on {path}")


def dump(cuobjdump: str, path: Path, arch: str = "") -> Iterator[Dump]:
    """The images of a binary, or those of one architecture, by its printed disassembly and symbols."""
    for image, kernels in zip(disassembled(cuobjdump, path, arch), listed(cuobjdump, path, arch), strict=True):
        image.kernels = kernels
        yield image


def listed(cuobjdump: str, path: Path, arch: str) -> Iterator[set[str]]:
    """The kernels of each image by its symbols, in the order of the disassembly."""
    current: set[str] | None = None
    for line in printed_by(cuobjdump, "-symbols", path, arch):
        if line.startswith((b"Fatbin elf code", b"Fatbin ptx code")):
            if current is not None:
                yield current
            current = set() if line.startswith(b"Fatbin elf") else None
        elif current is not None and (found := KERNEL.match(line.rstrip())):
            current.add(found[1].decode())
    if current is not None:
        yield current


def disassembled(cuobjdump: str, path: Path, arch: str) -> Iterator[Dump]:
    """The images by their printed instructions."""
    current, counts = None, Counter[str]()
    for line in printed_by(cuobjdump, "-sass", path, arch):
        if line.startswith(b"        /*"):
            if (b"MMA" in line or b"F2FP" in line or b"BPT" in line) and (found := MNEMONIC.search(line)):
                counts[class_of(found[1])] += 1
        elif line.startswith(b"\t\tFunction : ") and current:
            counts = current.functions.setdefault(line.split(b":", 1)[1].strip().decode(), Counter())
        elif line.startswith(b"arch = ") and current:
            current.arch = line.split()[-1].decode()
        elif line.startswith((b"Fatbin elf code", b"Fatbin ptx code")):
            if current:
                yield current
            current = Dump() if line.startswith(b"Fatbin elf") else None
    if current:
        yield current


def as_counts(counter: Counter[str]) -> tuple[int, ...]:
    """One number per class."""
    return tuple(counter[name] for name in CLASSES)


def theirs(image: Dump) -> Image:
    """Their image; functions that are no kernels count in the image only."""
    total = sum(image.functions.values(), Counter[str]())
    own = sorted((name, as_counts(image.functions.get(name, Counter()))) for name in image.kernels)
    return image.arch, tuple(own), as_counts(total)


def ours(image: ImageFacts) -> Image:
    """Our image in the same shape."""
    kernels = image.kernels or ()
    total = tuple(map(sum, zip(image.functions, *(kernel.counts for kernel in kernels), strict=True)))
    return image.arch, tuple(sorted((kernel.name, kernel.counts) for kernel in kernels)), total


def compare(cuobjdump: str, found: ObjectFacts, path: Path) -> list[str]:
    """Differences, empty when all images agree."""
    readable = [image for image in found.images if image.kind == "sass" and number(image.arch) >= OLDEST]
    mine = Counter(ours(image) for image in readable)
    # nvdisasm 13 stops at the first image that is older than 7.5, so such a binary is dumped by architecture
    old = any(image.kind == "sass" and number(image.arch) < OLDEST for image in found.images)
    archs = sorted({image.arch for image in readable}) if old else [""]
    # an image without code prints no function
    images = (image for arch in archs for image in dump(cuobjdump, path, arch))
    printed = Counter(theirs(image) for image in images if image.functions or image.kernels)
    mine = Counter({image: count for image, count in mine.items() if image[1] or any(image[2])})
    lines = [f"only ours ({count}): {brief(image)}" for image, count in (mine - printed).items()]
    return lines + [f"only theirs ({count}): {brief(image)}" for image, count in (printed - mine).items()]


def brief(image: Image) -> str:
    """An image in one line."""
    arch, kernels, total = image
    return f"{arch}, {len(kernels)} kernels, {dict(zip(CLASSES, total, strict=True))}, first {kernels[:1]}"


def check(cuobjdump: str, wheel: Path, jobs: int, only: str) -> bool:
    """Compare every binary of a wheel; True when all agree."""
    start = time.monotonic()
    facts = inspect_path(wheel)
    print(f"{wheel.name}: inspected in {time.monotonic() - start:.1f} s")
    coded = [
        found
        for found in facts.objects
        if any(image.kind == "sass" for image in found.images) and fnmatchcase(found.path, only)
    ]
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive, ThreadPoolExecutor(jobs) as pool:
        paths = [Path(archive.extract(found.path, folder)) for found in coded]
        results = pool.map(lambda pair: compare(cuobjdump, *pair), zip(coded, paths, strict=True))
        agreed = [report(found, lines) for found, lines in zip(coded, results, strict=True)]
    theirs = os.times()
    print(f"{wheel.name}: {theirs.children_user + theirs.children_system:.0f} processor seconds of cuobjdump so far")
    return all(agreed)


def check_twins(wheel: Path, only: str) -> bool:
    """Compare the PTX of every binary with its machine code; True when all agree."""
    facts = inspect_path(wheel, level="all")
    agreed = []
    for found in facts.objects:
        pairs = twins(found) if fnmatchcase(found.path, only) else []
        lines = [line for text, code in pairs for line in unlike(text, code)]
        if pairs:
            agreed.append(not lines)
            kernels = sum(len(text) for text, _ in pairs)
            say(f"{found.path}: {len(pairs)} PTX texts and their machine code, {kernels} kernels", lines)
    print(f"{wheel.name}: {len(agreed)} binaries with PTX and machine code of one architecture")
    return all(agreed)


Kernels = dict[str, KernelFacts]


def twins(found: ObjectFacts) -> list[tuple[Kernels, Kernels]]:
    """The kernels of each PTX and of its machine code."""
    groups: dict[tuple[int, str], dict[str, Kernels]] = {}
    for image in found.images:
        group = groups.setdefault((image.container, image.arch), {})
        group.setdefault(image.kind, {}).update((kernel.name, kernel) for kernel in image.kernels or ())
    return [(group["ptx"], group["sass"]) for group in groups.values() if len(group) > 1]


def unlike(text: Kernels, code: Kernels) -> Iterator[str]:
    """What differs: kernels that one of the two lacks, and facts."""
    for name in sorted(text.keys() ^ code.keys()):
        yield f"only in the {'PTX' if name in text else 'machine code'}: {name}"
    for name in sorted(text.keys() & code.keys()):
        if replace(text[name], kind="sass") != code[name]:
            yield f"{name}: {text[name]} in PTX, {code[name]} in machine code"


def report(found: ObjectFacts, lines: list[str]) -> bool:
    """Say how one binary compares; True when it agrees."""
    images = sum(image.kind == "sass" for image in found.images)
    totals = {
        name: sum(c.instructions[name] for c in found.code if c.kind == "sass" and c.instructions) for name in CLASSES
    }
    said = ", ".join(f"{count} {name}" for name, count in totals.items() if count)
    say(f"{found.path}: {images} images, {said or 'none of the classes'}", lines)
    return not lines


def say(what: str, lines: list[str]) -> None:
    """One line, and the first differences."""
    print(
        f"  {'equal ' if not lines else 'DIFFER'} {what}",
        *(f"      {line}" for line in lines[:10]),
        sep="\n",
        flush=True,
    )


def main() -> None:
    """Compare the wheels named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump") or "cuobjdump")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="binaries at a time")
    parser.add_argument("--only", default="*", help="only the binaries whose paths match")
    parser.add_argument("--twins", action="store_true", help="compare PTX with machine code, not with cuobjdump")
    parser.add_argument("wheels", type=Path, nargs="+")
    asked = parser.parse_args()
    if not asked.twins and shutil.which(asked.cuobjdump) is None:
        parser.error(
            "cuobjdump is not on PATH: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm, or --cuobjdump PATH"
        )
    results = [
        check_twins(wheel, asked.only) if asked.twins else check(asked.cuobjdump, wheel, asked.jobs, asked.only)
        for wheel in asked.wheels
    ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
