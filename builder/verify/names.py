"""Mangled names in findings, made readable by c++filt, which filters whole texts in one run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from builder.errors import RunError
from builder.finding import Accepted, Finding, Verdict
from builder.run import Runner

_MANGLED = re.compile(r"\b_Z\w+")
_LONGEST = 160


def readable(verdict: Verdict, run: Runner) -> Verdict:
    """The same verdict with C++ names; as it was where c++filt is not installed."""
    findings = [*verdict.findings, *(accepted.finding for accepted in verdict.accepted)]
    names = sorted({name for finding in findings for name in _MANGLED.findall(finding.message)})
    plain = dict(zip(names, demangled(names, run), strict=True))
    done = [_renamed(finding, plain) for finding in findings]
    kept = [Accepted(f, a.reason) for f, a in zip(done[len(verdict.findings) :], verdict.accepted, strict=True)]
    return dataclasses.replace(verdict, findings=tuple(done[: len(verdict.findings)]), accepted=tuple(kept))


def demangled(names: Sequence[str], run: Runner) -> list[str]:
    """C++ names of mangled ones, in order; long ones are cut in the middle."""
    if not names:
        return []
    try:
        lines = run(["c++filt"], stdin="\n".join(names).encode()).output.splitlines()
    except RunError:
        lines = []
    return [cut(line) for line in (lines if len(lines) == len(names) else names)]


def cut(name: str) -> str:
    """The name, without its middle where it is long."""
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}"


def _renamed(finding: Finding, plain: dict[str, str]) -> Finding:
    return dataclasses.replace(finding, message=_MANGLED.sub(lambda m: plain[m[0]], finding.message))
