"""One patch of a judged series: what went in, the verdict, what came out."""

from __future__ import annotations

from dataclasses import dataclass

from builder.patches.load import Patch
from builder.patches.state import PatchVerdict
from builder.patches.view import View


@dataclass(frozen=True, slots=True)
class Step:
    """One patch of a judged series: its verdict, and the view before and after it."""

    patch: Patch
    verdict: PatchVerdict
    before: View
    after: View
