"""The effects a stage may use, injected as one frozen record, so that tests can replace them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from builder.report import Report
from builder.run import Runner, run
from builder.store import Store


@dataclass(frozen=True, slots=True)
class Context:
    """Store, subprocess door, reporter and the log folder of this run."""

    store: Store
    logs: Path
    run: Runner = run
    report: Report = field(default_factory=Report)
