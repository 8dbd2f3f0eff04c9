"""An image's facts and expectations to findings, as strict as for wheels.

A folder of its own, because its rules are not those that `[[verify.exceptions]]` can excuse.
"""

from __future__ import annotations

from builder.verify.image.landing import opened_ptxas
from builder.verify.image.loader import search_path
from builder.verify.image.own import Own
from builder.verify.image.remote import INSTALL, inspect_anywhere, pinned, pull, remote_base
from builder.verify.image.rules import BASE_DIGEST, BASE_NAME, Wanted, base_findings, image_findings
from builder.verify.image.verb import run_image_verb
from builder.verify.image.wanted import (
    ARCHITECTURES,
    LABEL,
    Contents,
    Standing,
    needed,
    of_recipe,
    own_labels,
    pulled_base,
    standing,
    state_of,
    wanted_for,
)
from builder.verify.image.wheels import Installed, installed_of

__all__ = [
    "ARCHITECTURES",
    "BASE_DIGEST",
    "BASE_NAME",
    "INSTALL",
    "LABEL",
    "Contents",
    "Installed",
    "Own",
    "Standing",
    "Wanted",
    "base_findings",
    "image_findings",
    "inspect_anywhere",
    "installed_of",
    "needed",
    "of_recipe",
    "opened_ptxas",
    "own_labels",
    "pinned",
    "pull",
    "pulled_base",
    "remote_base",
    "run_image_verb",
    "search_path",
    "standing",
    "state_of",
    "wanted_for",
]
