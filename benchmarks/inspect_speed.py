"""How fast inspect reads a wheel, in turns with what it is held against (A B A B).

    python benchmarks/inspect_speed.py [--rounds N] [--cuobjdump PATH [--sample MEMBER] [--all]] WHEEL

Each turn is a process of its own, its start included; wall and processor seconds, and peak memory, are the kernel's.
Before each, another process takes a gigabyte in huge pages and gives it back: a virtual machine may have returned its
free memory to its host, and to get it again takes several times as long as the rest of a page's first touch.
"inflate" is merely inflating every member with zipfile on all cores, large ones first. With --cuobjdump, each round
also disassembles one binary of the wheel (--sample, by default the middle one by size of those with device
code) with `cuobjdump --dump-sass` and inspects the same file; what the whole wheel would take is told at the sample's
rate, by the unpacked bytes of machine code images. With --all, all binaries are disassembled once at the end, as many
at a time as there are cores: minutes to an hour. On a busy machine compare processor seconds: wall seconds are
other people's too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from builder.inspect import elf, fatbin
from builder.inspect.work import mapped

INSPECT = "import sys; from pathlib import Path; from builder.inspect import inspect_path; "
MEMORY = 1 << 30
"""Bytes that a turn finds at hand: more than any takes."""

LONG = "inspect all"
"""Not taken in turns: it works the cores so long that whoever came after it would be slower."""
TURNS = {
    "inspect sass": INSPECT + "inspect_path(Path(sys.argv[1]))",
    "inflate": (
        "import os, sys, zipfile; from concurrent.futures import ThreadPoolExecutor\n"
        "names = sorted(zipfile.ZipFile(sys.argv[1]).infolist(), key=lambda i: -i.compress_size)\n"
        "def read(info):\n"
        "    with zipfile.ZipFile(sys.argv[1]) as z, z.open(info) as f:\n"
        "        while f.read(1 << 20): pass\n"
        "large = [i for i in names if i.compress_size > 1 << 16]; small = names[len(large):]\n"
        "def rest(_):\n"
        "    with zipfile.ZipFile(sys.argv[1]) as z:\n"
        "        for info in small: z.read(info)\n"
        "with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:\n"
        "    jobs = [pool.submit(read, i) for i in large] + [pool.submit(rest, 0)]\n"
        "    [job.result() for job in jobs]\n"
    ),
    "inspect arch": INSPECT + "inspect_path(Path(sys.argv[1]), level='arch')",
    LONG: INSPECT + "inspect_path(Path(sys.argv[1]), level='all')",
}


@dataclass(frozen=True)
class Cost:
    """One turn: wall and processor seconds, peak bytes."""

    wall: float
    processor: float
    peak: int


@dataclass(frozen=True)
class Sample:
    """A binary of the wheel in a file of its own, and how much of the wheel's machine code is in it."""

    path: Path
    share: float


def turn(command: Sequence[str], env: dict[str, str] | None = None) -> Cost:
    """Run one turn in a fresh process, with all that it starts."""
    subprocess.run([sys.executable, "-c", f"import numpy; numpy.ones({MEMORY}, 'u1')"], check=True)
    start, before = time.monotonic(), os.times()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"a turn failed with status {status}: {command[:2]}")
    after = os.times()
    return Cost(time.monotonic() - start, sum(after[2:4]) - sum(before[2:4]), usage.ru_maxrss * 1024)


def code(name: str, path: Path) -> Cost:
    """A turn of ours, or of merely inflating."""
    return turn([sys.executable, "-c", TURNS[name], str(path)])


def disassemble(cuobjdump: str, paths: Sequence[Path]) -> Cost:
    """`cuobjdump --dump-sass` of some files, as many at a time as there are cores; the peak is that of one."""
    beside = {**os.environ, "PATH": f"{Path(cuobjdump).resolve().parent}:{os.environ['PATH']}"}  # it calls nvdisasm
    start, before = time.monotonic(), os.times()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        costs = list(pool.map(lambda path: turn([cuobjdump, "--dump-sass", str(path)], beside), paths))
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return Cost(time.monotonic() - start, spent, max(cost.peak for cost in costs))


def unpacked(data: memoryview) -> int:
    """Bytes of the machine code images in a binary, unpacked."""
    sections = elf.fatbin_sections(elf.parse(data))
    return sum(entry.plain for section in sections for entry in fatbin.entries(section) if entry.kind == "sass")


def extracted(wheel: Path, folder: Path) -> dict[Path, int]:
    """The binaries with device code as files, small ones first, and their `unpacked` bytes."""
    with zipfile.ZipFile(wheel) as archive:
        infos = sorted(archive.infolist(), key=lambda info: info.file_size)
        paths = [Path(archive.extract(info, folder)) for info in infos if info.filename.endswith(".so")]
    found = {}
    for path in paths:
        with mapped(path) as data:
            found[path] = unpacked(data)
    return {path: size for path, size in found.items() if size}


def warm(path: Path) -> None:
    """Bring the file into the page cache, for all turns alike, in pieces: a child's peak begins with its parent's."""
    with path.open("rb") as stream:
        while stream.read(1 << 20):
            pass


def pick(binaries: dict[Path, int], named: str) -> Sample:
    """The binary that is named, else the middle one."""
    paths = list(binaries)
    path = next((path for path in paths if named and str(path).endswith(named)), paths[len(paths) // 2])
    return Sample(path, binaries[path] / sum(binaries.values()))


def show(name: str, costs: list[Cost]) -> None:
    """The middle and the best of the turns."""
    wall, processor = (sorted(getattr(c, field) for c in costs) for field in ("wall", "processor"))
    print(
        f"{name:18} wall {statistics.median(wall):7.2f} s (best {wall[0]:.2f})   "
        f"processor {statistics.median(processor):7.2f} s (best {processor[0]:.2f})   "
        f"peak {max(c.peak for c in costs) / 1e6:6.0f} MB",
        flush=True,
    )


def ratio(first: list[Cost], second: list[Cost], name: str, scale: float = 1) -> None:
    """By the middle turns and by the best, the ones least disturbed."""
    said = []
    for field in ("wall", "processor"):
        one, other = ([getattr(cost, field) for cost in costs] for costs in (first, second))
        middle, best = statistics.median(one) / statistics.median(other), min(one) / min(other)
        said.append(f"{field} {middle * scale:.2f} (best {best * scale:.2f})")
    print(f"{name}: {', '.join(said)}", flush=True)


def measure(asked: argparse.Namespace, folder: Path) -> None:
    """Take turns, then print a line each and the ratios."""
    binaries = extracted(asked.wheel, folder) if asked.cuobjdump else {}
    sample = pick(binaries, asked.sample) if binaries else None
    costs: dict[str, list[Cost]] = {name: [] for name in (*TURNS, *(("inspect sample", "cuobjdump") if sample else ()))}
    warm(asked.wheel)
    for _ in range(asked.rounds):
        for name in (name for name in TURNS if name != LONG):
            costs[name].append(code(name, asked.wheel))
        if sample:
            costs["inspect sample"].append(code("inspect sass", sample.path))
            costs["cuobjdump"].append(disassemble(asked.cuobjdump, [sample.path]))
    costs[LONG] = [code(LONG, asked.wheel) for _ in range(asked.rounds)]
    for name, found in costs.items():
        show(name, found)
    ratio(costs["inspect sass"], costs["inflate"], "inspect sass / inflate")
    if sample:
        print(f"the sample is {sample.path.name}, {sample.share:.1%} of the wheel's machine code")
        ratio(costs["cuobjdump"], costs["inspect sample"], "cuobjdump / inspect, of the sample")
        rate = 1 / sample.share
        ratio(costs["cuobjdump"], costs["inspect sass"], "cuobjdump at the sample's rate / inspect, of the wheel", rate)
    if asked.all:
        theirs = [disassemble(asked.cuobjdump, list(binaries))]
        show("cuobjdump, all", theirs)
        ratio(theirs, costs["inspect sass"], "cuobjdump / inspect, of the wheel")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cuobjdump")
    parser.add_argument("--sample", default="", help="the end of a member's name")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("wheel", type=Path)
    asked = parser.parse_args()
    if asked.all and not asked.cuobjdump:
        parser.error("--all needs --cuobjdump PATH")
    with tempfile.TemporaryDirectory() as folder:
        measure(asked, Path(folder))


if __name__ == "__main__":
    main()
