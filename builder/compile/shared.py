"""Compiles one machine's share of a configured build, and nothing else: the objects go to the compiler cache."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from builder.compile.job import Job
from builder.compile.native import Left
from builder.compile.ninjafile import Unit, reader, units_in
from builder.compile.shard import Share, seconds_of, share_of
from builder.compile.trace import recorded
from builder.compile.units import UnitWatch
from builder.errors import RunError


@dataclass(frozen=True, slots=True)
class Shared:
    """The targets of a share, longest first, of how many in all, and seconds on one core as far as is known."""

    units: tuple[str, ...] = ()
    total: int = 0
    seconds: float = 0.0


def compile_units(
    job: Job, share: Share, left: Left, root: Path, *, env: Mapping[str, str], watch: UnitWatch
) -> Shared:
    """Let ninja make the share's objects in the configured folder, each by way of the cache. Raises CompileError.

    `root` is the folder that sources are named from. An object that is there already is made again, from the cache
    where it has it: only so is it certain to be in the storage that this share writes to. All others stay, for a
    build of the whole.
    """
    build = left.folder
    units = wanted(job, left, units_in((build / "build.ninja").read_text(encoding="utf-8"), str(root), reader(build)))
    chosen = share_of(units, share)
    targets = tuple(unit.target for unit in chosen)
    job.context.report.note(f"{watch.what}: {len(chosen)} of {len(units)} units are share {share}")
    if chosen:
        log = job.context.logs / f"{watch.what}.log"
        ninja = job.toolchain.bin / "ninja"
        argv: list[str | Path] = [ninja, "-C", build, "-f", "build.ninja", f"-j{job.jobs}", "-k", "1", *targets]
        for target in targets:
            (build / target).unlink(missing_ok=True)
        try:
            with recorded(build, watch.what, root, job.context.logs):
                job.context.run(argv, env=env, log=log, on_line=watch)
        except RunError as error:
            raise watch.error(str(log)) from error
    return Shared(targets, len(units), sum(map(seconds_of, chosen)))


def wanted(job: Job, left: Left, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Those that go into the targets: a build file also tells how to make what this build leaves out."""
    if not left.targets:
        return units
    ninja: list[str | Path] = [job.toolchain.bin / "ninja", "-C", left.folder, "-t", "inputs", *left.targets]
    inputs = set(shlex.split(job.context.run(ninja, env=job.toolchain.environment()).output))
    return tuple(unit for unit in units if unit.target in inputs)
