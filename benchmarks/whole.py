"""A whole build from an empty compiler cache, against what its compilers' steps would take with all cores busy.

Run with `python -m benchmarks.whole [recipe=aeon7] [store=PATH] [jobs=N] [keep=PATH]`: hours for aeon7 on two cores.
Wall time is the builder's whole run: sources, configure, links, packing and verification too. CPU seconds are the
gate's, of each compiler step and each preprocessor as its parent sees it. What is no compiler is not among them, so
that ratio errs against us. The other is of all that the cores did meanwhile, by /proc/stat: on a machine that does
nothing else, how full they were kept. `keep` is where the wheels and logs are left.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.lab import laboratory, options_of, say
from builder.compile.governed import STEPS, TEXTS
from builder.compile.jobs import cores


def main(argv: list[str]) -> None:
    """Build once; four lines."""
    options = options_of(argv)
    recipe = options.get("recipe", "aeon7")
    with laboratory(options) as lab:
        out = Path(options.get("keep", lab.folder / "out"))
        checkout, store, before = lab.checkout("checkout"), lab.store("empty"), _busy()
        built = lab.build(checkout, store, recipe, f"out={out}")
        busy = _busy() - before
        found = list(steps(out / recipe))
        texts, count = sum(step["cpu_seconds"] for step in steps(out / recipe, TEXTS)), cores()
        cpu = texts + sum(step["cpu_seconds"] for step in found)
        say(f"{recipe}: {built.seconds:.0f} s wall; {len(found)} compiler steps, on {count} cores")
        say(f"{cpu:.0f} CPU s of units, {texts:.0f} of them preprocessing")
        say(f"largest step {max(step['peak_bytes'] for step in found) / 1e9:.2f} GB; {_given_way(found)} gave way")
        say(
            f"wall / (CPU / cores): {built.seconds / (cpu / count):.3f}; of all that ran, {busy:.0f} CPU s: "
            f"{built.seconds / (busy / count):.3f}"
        )


def steps(out: Path, name: str = STEPS) -> Iterator[dict[str, Any]]:
    """The lines of every step that the gate let through (or of preprocessors), of all runs into this folder."""
    for log in sorted(out.glob(f"logs/*/{name}")):
        yield from map(json.loads, log.read_text().splitlines())


def _busy() -> float:
    """CPU seconds of everything since the machine started."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _given_way(found: list[dict[str, Any]]) -> int:
    return sum(bool(step["killed"]) for step in found)


if __name__ == "__main__":
    main(sys.argv[1:])
