"""SourceTree → PatchedTree: exact states of every patch, never by fuzz; the states are in state.py.

`apply_series` is the stage. `run_verb` and `render` are the verbs of `python -m builder patches`.
"""

from builder.patches.overlap import Overlap, overlaps_of
from builder.patches.promises import Promise, broken_promises, promises
from builder.patches.pulls import Pull, prove
from builder.patches.radar import Release
from builder.patches.render import render
from builder.patches.result import Result, result_of
from builder.patches.series import apply_series
from builder.patches.step import Step
from builder.patches.verbs import Bench, Sources, overlaps, radar, run_verb, standings, status

__all__ = [
    "Bench",
    "Overlap",
    "Promise",
    "Pull",
    "Release",
    "Result",
    "Sources",
    "Step",
    "apply_series",
    "broken_promises",
    "overlaps",
    "overlaps_of",
    "promises",
    "prove",
    "radar",
    "render",
    "result_of",
    "run_verb",
    "standings",
    "status",
]
