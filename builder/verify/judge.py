"""Facts and expectations in, verdict out; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from builder.finding import Verdict
from builder.inspect.facts import FileFacts
from builder.verify.code import code_faults, label
from builder.verify.expect import Expectations
from builder.verify.known import knowledge
from builder.verify.link import link_faults
from builder.verify.rules import Fault, sift
from builder.verify.sbom import paper_faults
from builder.verify.wheelrules import Contents, wheel_faults


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was observed of one file. `symbols` are the faults of the symbol closure."""

    file: FileFacts
    contents: Contents = field(default_factory=Contents)
    symbols: tuple[Fault, ...] = ()


def judge(evidence: Evidence, wanted: Expectations) -> Verdict:
    """Hold every fact against the expectations; all contradictions at once."""
    whole = evidence.file.wheel is not None
    faults: Iterable[Fault] = (
        *wheel_faults(evidence.file, evidence.contents, wanted),
        *paper_faults(evidence.file, evidence.contents),
        *link_faults(evidence.file, wanted),
        *code_faults(evidence.file.objects, wanted, whole=whole),
        *evidence.symbols,
    )
    findings, accepted = sift(faults, (*wanted.exempt, *knowledge().harmless), whole=whole)
    archs = {found.path: tuple(sorted({label(image) for image in found.images})) for found in evidence.file.objects}
    return Verdict(findings, archs, accepted)
