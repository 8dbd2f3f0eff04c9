"""Holds the gate against plain ninja under a memory limit in which plain ninja's compilers are killed.

    python -m benchmarks.memory [--store PATH] [--big N] [--small N] [--rounds N]

Needs a writable memory cgroup (version 1 or 2) and the smoke recipe's toolchain, which it fetches if need be. The units
are generated: tables of constants, a few large and many small, because they take a gigabyte within seconds where a
kernel of that size takes minutes. They are compiled by the real nvcc without a compiler cache:

- serial: one at a time, no limit. Its wall time is the sum of the units' times.
- plain: `ninja -jCORES` within the limit.
- gate: the same with the gate, in the first round without knowing any unit, then with what it learned.

The limit holds one large unit and small ones beside it, but not two large ones. They alternate. Prints each
arm, and the gate's time over the ideal (the serial time / cores) and over its own CPU seconds / cores, which another
load on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from builder.compile import governed, prepare
from builder.compile.gate.step import FOLDER
from builder.compile.governed import STEPS
from builder.compile.jobs import cores, units_in_hand
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.recipe import load, locked
from builder.report import Report, size
from builder.store import Store

ROOT = Path(__file__).parent.parent
LARGE, SMALL = 2_000_000, 160_000
LIMIT = 1_400_000_000
RULE = """\
rule CUDA_COMPILER__bench
  command = {nvcc} -ccbin {cxx} -gencode arch=compute_121a,code=sm_121a -O1 -c $in -o $out
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How one build went: seconds, CPU seconds, its exit code, and how many processes the kernel killed in it."""

    seconds: float
    cpu: float
    code: int
    kills: int


def unit(folder: Path, name: str, entries: int) -> str:
    """A source with a table of that many constants, and its build statement."""
    rows = (
        ",".join(str((number * 2654435761) & 0xFFFFFFFF) for number in range(first, first + 16))
        for first in range(0, entries, 16)
    )
    with (folder / f"{name}.cu").open("w") as source:
        source.write("__device__ const unsigned table[] = {\n")
        source.writelines(f"{row},\n" for row in rows)
        source.write(f"}};\n__global__ void {name}(unsigned* to, int n) {{ *to = table[n]; }}\n")
    return f"build {name}.cu.o: CUDA_COMPILER__bench {name}.cu\n"


def write_units(folder: Path, toolchain: Toolchain, big: int, small: int) -> None:
    """The sources, and a build file with the large ones first: longest first, as anybody would."""
    statements = [unit(folder, f"large{number}", LARGE) for number in range(big)]
    statements += [unit(folder, f"small{number}", SMALL) for number in range(small)]
    rule = RULE.format(nvcc=toolchain.cuda_home / "bin/nvcc", cxx=toolchain.compilers.cxx)
    (folder / "build.ninja").write_text(rule + "".join(statements))


class Group:
    """A memory cgroup of our own, of either version."""

    def __init__(self, limit: int) -> None:
        old = Path("/sys/fs/cgroup/memory")
        self.version = 1 if old.is_dir() else 2
        self.folder = (old if self.version == 1 else Path("/sys/fs/cgroup")) / "spark-wheels-bench"
        with suppress(OSError):
            self.folder.rmdir()
        self.folder.mkdir()
        (self.folder / ("memory.limit_in_bytes" if self.version == 1 else "memory.max")).write_text(str(limit))

    def kills(self) -> int:
        """Processes that the kernel has killed in it."""
        text = (self.folder / ("memory.oom_control" if self.version == 1 else "memory.events")).read_text()
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])

    def remove(self) -> None:
        """Remove it, when the last process is gone."""
        for _ in range(100):
            with suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)


@contextmanager
def limited(limit: int) -> Iterator[Group]:
    """A cgroup for one build."""
    group = Group(limit)
    try:
        yield group
    finally:
        group.remove()


def ninja(folder: Path, jobs: str, env: Mapping[str, str], group: Group | None = None) -> Ran:
    """Compile all units from nothing."""
    for done in folder.glob("*.o"):
        done.unlink()
    (folder / ".ninja_log").unlink(missing_ok=True)
    inside = ["sh", "-c", f'echo $$ > {group.folder}/cgroup.procs; exec "$@"', "sh"] if group else []
    started, before = time.monotonic(), children()
    ended = subprocess.run(
        [*inside, "ninja", f"-j{jobs}", "-k0"], cwd=folder, env=dict(env), capture_output=True, check=False
    )
    return Ran(time.monotonic() - started, children() - before, ended.returncode, group.kills() if group else 0)


def children() -> float:
    """CPU seconds of all that has ended below us."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told(name: str, ran: Ran, more: str = "") -> None:
    """One line."""
    how = "built" if ran.code == 0 else "failed"
    print(
        f"{name:8} {ran.seconds:7.1f} s  {ran.cpu:7.1f} CPU s  {how:6}  {ran.kills} killed by the kernel  {more}",
        flush=True,
    )


def compare(folder: Path, toolchain: Toolchain, context: Context, rounds: int) -> None:
    """All arms, A B A B, and the verdict."""
    env = toolchain.environment()
    print(f"{cores()} cores, limit {size(LIMIT)}")
    for _ in range(rounds):
        serial = ninja(folder, "1", env)
        told("serial", serial)
        with limited(LIMIT) as group:
            told("plain", ninja(folder, str(cores()), env, group))
        with limited(LIMIT) as group, governed(context) as gate:
            own = {FOLDER: str(folder / "gate")}  # another build on this machine is not part of the measurement
            ran = ninja(folder, str(units_in_hand("auto")), env | dict(gate) | own, group)
        lines = (context.logs / STEPS).read_text().splitlines()
        yielded = sum(json.loads(line)["killed"] == "gate" for line in lines)
        ideal, used = serial.seconds / cores(), ran.cpu / cores()
        told("gate", ran, f"{yielded} gave way; / ideal {ran.seconds / ideal:.2f}, / own {ran.seconds / used:.2f}")
        shutil.rmtree(context.logs)


def main() -> None:
    """Parse, generate, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path.home() / ".cache/spark-wheels")
    parser.add_argument("--big", type=int, default=2)
    parser.add_argument("--small", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    recipe = load("smoke", ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        quiet = Report(io.StringIO(), quiet=True)
        shared = Context(Store(asked.store), Path(scratch, "logs"), report=quiet)
        toolchain = prepare(recipe, locked(recipe, ROOT), shared)
        fresh = Context(Store(Path(scratch, "store")), Path(scratch, "logs"), report=quiet)
        folder = Path(scratch, "units")
        folder.mkdir()
        write_units(folder, toolchain, asked.big, asked.small)
        compare(folder, toolchain, fresh, asked.rounds)


if __name__ == "__main__":
    main()
