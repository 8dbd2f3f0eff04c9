"""A build under the gate: what its steps must know before, and what they tell afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from builder.compile.gate.preprocess import PREPROCESSED
from builder.compile.gate.step import DEVICE, FOLDER, JOBS, LEARNED, LOG
from builder.compile.jobs import cores
from builder.compile.learned import learn, learned, lines
from builder.compile.place import canonical_root
from builder.context import Context
from builder.report import size
from builder.store import atomic_write

STEPS = "steps.jsonl"
"""The gate's log, in the build's folder of logs: one line of JSON a step that ended."""

TEXTS = "preprocessed.jsonl"
"""Its other log: one line a run of the preprocessor, of hits too."""

_TABLE = "expected.tsv"


@contextmanager
def governed(context: Context, device: str = "") -> Iterator[Mapping[str, str]]:
    """The environment in which the toolchain's stubs ask the gate; afterwards the store learns from the log.

    All builds of a machine share one gate, whatever store or recipe they build with. `device` is the target's
    compute capability (`12.1`): units without code for it are refused. It also learns from a build that fails.
    Steps that were ended for memory and ran again are told to the report.
    """
    log = context.logs / STEPS
    atomic_write(context.logs / _TABLE, lines(learned(context.store)).encode())
    before = log.stat().st_size if log.is_file() else 0
    try:
        yield {
            FOLDER: str(canonical_root() / "gate"),
            LOG: str(log),
            PREPROCESSED: str(context.logs / TEXTS),
            LEARNED: str(context.logs / _TABLE),
            JOBS: str(cores()),
            **({DEVICE: device} if device else {}),
        }
    finally:
        new = _since(log, before)
        learn(context.store, new)
        for line in killed(new):
            context.report.warn(line)


def killed(log: list[str]) -> list[str]:
    """A sentence for each step that was ended for memory: by the gate in time, or by the kernel."""
    return [sentence for line in log if (sentence := _killed(line))]


def _since(log: Path, position: int) -> list[str]:
    try:
        with log.open("rb") as stream:
            stream.seek(position)
            return stream.read().decode(errors="replace").splitlines()
    except OSError:
        return []


def _killed(line: str) -> str:
    try:
        step = json.loads(line)
        by, what = step["killed"], f"{step['unit']}: {step['tool']} {step['arch']}".rstrip()
        peak = size(float(step["peak_bytes"]))
    except (ValueError, KeyError, TypeError):
        return ""
    if by == "gate":
        return f"{what} gave {peak} back for the others, and started again when there was room"
    if by == "kernel" and not step.get("alone"):
        return f"{what} was killed for memory at {peak}, and tried again alone"
    return f"{what} was killed for memory at {peak}, though it ran alone" if by else ""
