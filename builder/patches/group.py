"""Patches that are upstream together, though the earlier of them is not recognisable by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from builder.patches.judge import judge
from builder.patches.state import State
from builder.patches.step import Step
from builder.patches.view import View


def grouped(steps: list[Step]) -> tuple[Step, ...]:
    """Mark runs of patches that are upstream together, where a later one edits lines of an earlier one.

    Such an earlier patch cannot be taken back from the tree by itself; taken back after the later
    ones, it can.
    """
    for first, step in enumerate(steps):
        if step.verdict.state is State.CONFLICT and step.verdict.reason in {"context", "partial", "exists"}:
            for last in range(first + 1, len(steps)):
                run = range(first, last + 1)
                if steps[last].patch.diff.paths & step.patch.diff.paths and _taken_back(steps, run, step.before):
                    for index in run:
                        steps[index] = _as_contained(steps[index], step.before, steps[last].patch.file)
                    break
    return tuple(steps)


def _taken_back(steps: Sequence[Step], run: Iterable[int], view: View) -> bool:
    """True when all patches of the run that do not apply can be taken back, the last first."""
    after: View | None = view
    for index in reversed([i for i in run if not steps[i].verdict.state.applies]):
        if after is None or steps[index].verdict.state is State.MALFORMED:
            return False
        after = judge(steps[index].patch.diff.reversed(), after).after
    return after is not None


def _as_contained(step: Step, view: View, group: str) -> Step:
    if step.verdict.state.applies:
        return step
    together = group if group != step.patch.file else ""
    verdict = replace(step.verdict, state=State.CONTAINED, reason="", offset=0, group=together)
    return Step(step.patch, verdict, view, step.after)
