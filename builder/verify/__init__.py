"""Facts and expectations to a verdict: proof from machine code of what a wheel is.

`verify_wheel` is the only place that makes a VerifiedWheel; `judge` is pure.
"""

from builder.verify.check import examine, verify_wheel
from builder.verify.expect import Built, Exempt, Expectations, Proof, expectations_for, for_device
from builder.verify.judge import Evidence, judge
from builder.verify.verb import run_verb

__all__ = [
    "Built",
    "Evidence",
    "Exempt",
    "Expectations",
    "Proof",
    "examine",
    "expectations_for",
    "for_device",
    "judge",
    "run_verb",
    "verify_wheel",
]
