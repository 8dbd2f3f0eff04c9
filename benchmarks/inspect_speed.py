"""How fast inspect reads a wheel, in turns with what it is held against (A B A B).

    python benchmarks/inspect_speed.py [--rounds N] [--cuobjdump PATH] WHEEL

Each turn is a process of its own; wall and processor seconds, and peak memory, are the kernel's. "inflate" is
merely inflating every member with zipfile on all cores, large ones first. With --cuobjdump, `cuobjdump -sass` of each
binary runs once at the end, as many at a time as there are cores: minutes. On a busy machine compare processor
seconds: wall seconds are other people's too.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

INSPECT = "import sys; from pathlib import Path; from builder.inspect import inspect_path; "
TURNS = {
    "inspect all": INSPECT + "inspect_path(Path(sys.argv[1]), level='all')",
    "inspect sass": INSPECT + "inspect_path(Path(sys.argv[1]))",
    "inspect arch": INSPECT + "inspect_path(Path(sys.argv[1]), level='arch')",
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
}


@dataclass(frozen=True)
class Cost:
    """One turn: wall and processor seconds, peak bytes."""

    wall: float
    processor: float
    peak: int


def turn(code: str, wheel: Path) -> Cost:
    """Run one turn in a fresh interpreter."""
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", code, str(wheel)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"a turn failed with status {status}")
    return Cost(time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def disassemble(cuobjdump: str, wheel: Path) -> Cost:
    """`cuobjdump -sass` of every binary with device code; peak is not measured."""
    before, start = os.times(), time.monotonic()
    beside = {**os.environ, "PATH": f"{Path(cuobjdump).resolve().parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive, ThreadPoolExecutor() as pool:
        paths = [archive.extract(name, folder) for name in archive.namelist() if name.endswith(".so")]

        def run(path: str) -> None:
            subprocess.run([cuobjdump, "-sass", path], stdout=subprocess.DEVNULL, env=beside, check=False)

        list(pool.map(run, paths))
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    return Cost(time.monotonic() - start, spent, 0)


def show(name: str, costs: list[Cost]) -> None:
    """The middle and the best of the turns."""
    wall, processor = (sorted(getattr(c, field) for c in costs) for field in ("wall", "processor"))
    peak = max(c.peak for c in costs) / 1e6
    print(
        f"{name:14} wall {statistics.median(wall):7.2f} s (best {wall[0]:.2f})   "
        f"processor {statistics.median(processor):7.2f} s (best {processor[0]:.2f})   peak {peak:6.0f} MB"
    )


def main() -> None:
    """Take turns, then print one line each and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cuobjdump")
    parser.add_argument("wheel", type=Path)
    asked = parser.parse_args()
    asked.wheel.read_bytes()  # into the page cache, for all turns alike
    costs: dict[str, list[Cost]] = {name: [] for name in TURNS}
    for _ in range(asked.rounds):
        for name, code in TURNS.items():
            costs[name].append(turn(code, asked.wheel))
    for name, found in costs.items():
        show(name, found)
    ratio(costs["inspect sass"], costs["inflate"], "inspect sass / inflate")
    if asked.cuobjdump:
        theirs = [disassemble(asked.cuobjdump, asked.wheel)]
        show("cuobjdump", theirs)
        ratio(theirs, costs["inspect sass"], "cuobjdump / inspect sass")


def ratio(first: list[Cost], second: list[Cost], name: str) -> None:
    """By the best turns, the ones least disturbed."""
    by = {
        field: min(getattr(c, field) for c in first) / min(getattr(c, field) for c in second)
        for field in ("wall", "processor")
    }
    print(f"{name}: wall {by['wall']:.2f}, processor {by['processor']:.2f}")


if __name__ == "__main__":
    main()
