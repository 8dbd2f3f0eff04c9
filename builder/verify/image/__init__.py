"""An image's facts and expectations to findings, as strict as for wheels.

A folder of its own, because its rules are not those that `[[verify.exceptions]]` can excuse.
"""

from __future__ import annotations

from builder.verify.image.loader import search_path
from builder.verify.image.rules import BASE_DIGEST, BASE_NAME, Wanted, base_findings, image_findings
from builder.verify.image.verb import ARCHITECTURES, LABEL, run_image_verb, wanted_of
from builder.verify.image.wheels import Installed, installed_of

__all__ = [
    "ARCHITECTURES",
    "BASE_DIGEST",
    "BASE_NAME",
    "LABEL",
    "Installed",
    "Wanted",
    "base_findings",
    "image_findings",
    "installed_of",
    "run_image_verb",
    "search_path",
    "wanted_of",
]
