"""What wheels hold for a device, side by side, as a table for the docs.

    python benchmarks/official.py [--device 12.1] WHEEL|FOLDER…

A kernel is counted once per fatbin that holds it, in the image that the device's driver takes. "native" runs as it
is, "JIT" is compiled from PTX at load, "none" cannot run there. "trap-only" and "empty" are among the first two,
native + JIT. OMMA is the block-scaled FP4 instruction, counted in code that runs natively; "OMMA built for" names
the architectures of all machine code in the wheel that has it.
Of a folder the newest wheel is taken. `nox -s official` fetches the official wheels first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from builder.inspect import FileFacts, inspect_path
from builder.inspect.devices import How, capability, launches
from builder.inspect.facts import CLASSES, KernelFacts

OMMA, QMMA = CLASSES.index("OMMA"), CLASSES.index("QMMA")
HEAD = ("wheel", "part", "native", "JIT", "none", "trap-only", "empty", "OMMA native", "QMMA native", "OMMA built for")


@dataclass(frozen=True)
class Row:
    """The kernels of one part, as they run on the device, and the architectures of code with OMMA."""

    runs: list[tuple[How, KernelFacts]]
    fp4: frozenset[str]

    def cells(self) -> list[str]:
        """The cells of a row, in the order of HEAD."""
        ways = [how for how, _ in self.runs]
        native, jit = ([kernel for how, kernel in self.runs if how == way] for way in ("native", "jit"))
        hollow = [f"{count(native, what)} + {count(jit, what)}" for what in ("trap_only", "empty")]
        held = [sum(kernel.counts[index] for kernel in native) for index in (OMMA, QMMA)]
        numbers = [len(native), len(jit), ways.count("none")]
        return [*map(grouped, numbers), *hollow, *map(grouped, held), ", ".join(sorted(self.fp4)) or "none"]


def count(kernels: list[KernelFacts], what: str) -> int:
    """Kernels that are so."""
    return sum(getattr(kernel, what) for kernel in kernels)


def grouped(number: int) -> str:
    """1,234."""
    return f"{number:,}"


def rows(file: FileFacts, device: str) -> Iterator[tuple[str, Row]]:
    """A row for the whole wheel, then one for each object with device code."""
    parts = {
        found.path: Row(
            list(launches(found.images, capability(device)).values()),
            frozenset(kernel.arch for kernel in found.kernels if kernel.kind == "sass" and kernel.counts[OMMA]),
        )
        for found in file.objects
        if found.images
    }
    yield (
        "all",
        Row([run for row in parts.values() for run in row.runs], frozenset().union(*(r.fp4 for r in parts.values()))),
    )
    yield from parts.items()


def newest(path: Path) -> Path:
    """The wheel itself, or the one of the highest version in a folder."""
    wheels = path.glob("*.whl") if path.is_dir() else [path]
    return max(wheels, key=lambda wheel: parse_wheel_filename(wheel.name)[1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="12.1")
    parser.add_argument("wheels", type=Path, nargs="+")
    asked = parser.parse_args()
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * 2 + "---:|" * (len(HEAD) - 3) + "---|")
    for path in map(newest, asked.wheels):
        file = inspect_path(path, devices=(asked.device,))
        version = file.wheel.version if file.wheel else path.name
        for part, row in rows(file, asked.device):
            name = part if part == "all" else f"`{part.removeprefix('vllm/').removesuffix('.abi3.so')}`"
            print("| " + " | ".join([version if part == "all" else "", name, *row.cells()]) + " |", flush=True)


if __name__ == "__main__":
    main()
