"""Holds `inspect` against NVIDIA's own disassembler, image by image and kernel by kernel.

    python benchmarks/agreement.py [--cuobjdump PATH] [--jobs N] [--only PATTERN] WHEEL…

Needs cuobjdump and nvdisasm of CUDA 13.2 or later (packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm;
older ones print sm_120f as sm_120). Every binary with device code is disassembled whole, which takes minutes for a
large wheel. Prints one line per binary and exits 1 on the first kind of difference found in any.
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
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from builder.inspect import CLASSES, ImageFacts, ObjectFacts, inspect_path

Image = tuple[str, tuple[tuple[str, tuple[int, ...]], ...], tuple[int, ...]]
"""Architecture, (kernel, counts) sorted, counts of the whole image."""

OLDEST = 75
MNEMONIC = re.compile(rb"\*/\s+(?:@!?U?P\w+ +)?((?:[OQHI]MMA|[HIQ]GMMA|UTC[A-Z]*MMA|F2FP|BPT\.TRAP)\b[\w.]*)")


@dataclass
class Dump:
    """One image as cuobjdump prints it."""

    arch: str = ""
    functions: dict[str, Counter[str]] = field(default_factory=dict)


def class_of(mnemonic: bytes) -> str:
    """The class that a printed mnemonic belongs to; empty for other converts."""
    text = mnemonic.decode()
    head = text.partition(".")[0]
    if head.startswith("UTC"):
        return "UTCMMA"
    if head == "F2FP":
        return "F2FP.E2M1" if ".E2M1" in text else "F2FP.FP8" if ".E4M3" in text or ".E5M2" in text else ""
    return "BPT.TRAP" if head == "BPT" else head


def dump(cuobjdump: str, path: Path, arch: str = "") -> Iterator[Dump]:
    """The images of a binary, or those of one architecture, by its printed disassembly."""
    current, counts = None, Counter[str]()
    command = [cuobjdump, "-sass", *(("-arch", arch) if arch else ()), str(path)]
    beside = {**os.environ, "PATH": f"{Path(cuobjdump).resolve().parent}:{os.environ['PATH']}"}  # it calls nvdisasm
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=1 << 20, env=beside) as process:
        assert process.stdout is not None
        for line in process.stdout:
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
    if process.returncode:
        raise SystemExit(f"{cuobjdump} failed on {path}")


def as_counts(counter: Counter[str]) -> tuple[int, ...]:
    """One number per class."""
    return tuple(counter[name] for name in CLASSES)


def theirs(image: Dump, kernels: set[str]) -> Image:
    """Their image; functions that are no kernels count in the image only."""
    total = sum(image.functions.values(), Counter[str]())
    own = sorted((name, as_counts(counts)) for name, counts in image.functions.items() if name in kernels)
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
    kernels = {kernel.name for kernel in found.kernels}
    # nvdisasm 13 stops at the first image that is older than 7.5, so such a binary is dumped by architecture
    old = any(image.kind == "sass" and number(image.arch) < OLDEST for image in found.images)
    archs = sorted({image.arch for image in readable}) if old else [""]
    # an image without code prints no function
    printed = Counter(theirs(image, kernels) for a in archs for image in dump(cuobjdump, path, a) if image.functions)
    mine = Counter({image: count for image, count in mine.items() if image[1] or any(image[2])})
    lines = [f"only ours ({count}): {brief(image)}" for image, count in (mine - printed).items()]
    return lines + [f"only theirs ({count}): {brief(image)}" for image, count in (printed - mine).items()]


def number(arch: str) -> int:
    """120 of sm_120f."""
    return int(re.sub(r"\D", "", arch))


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


def report(found: ObjectFacts, lines: list[str]) -> bool:
    """Say how one binary compares; True when it agrees."""
    images = sum(image.kind == "sass" for image in found.images)
    totals = {
        name: sum(c.instructions[name] for c in found.code if c.kind == "sass" and c.instructions) for name in CLASSES
    }
    said = ", ".join(f"{count} {name}" for name, count in totals.items() if count)
    print(
        f"  {'equal ' if not lines else 'DIFFER'} {found.path}: {images} images, {said or 'none of the classes'}",
        flush=True,
    )
    for line in lines[:10]:
        print(f"      {line}")
    return not lines


def main() -> None:
    """Compare the wheels named on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuobjdump", default=shutil.which("cuobjdump") or "cuobjdump")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="binaries at a time")
    parser.add_argument("--only", default="*", help="only the binaries whose paths match")
    parser.add_argument("wheels", type=Path, nargs="+")
    asked = parser.parse_args()
    if shutil.which(asked.cuobjdump) is None:
        parser.error(
            "cuobjdump is not on PATH: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm, or --cuobjdump PATH"
        )
    results = [check(asked.cuobjdump, wheel, asked.jobs, asked.only) for wheel in asked.wheels]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
