"""A container image as bytes: an OCI layout or a docker-archive, every digest proven, to plain facts.

Our own reader, because the tools that read images either need a daemon or unpack as root, and
none of them answers with the merged file system and its digests.
"""

from __future__ import annotations

from builder.inspect.oci.api import REMOTE, base_of, inspect_image, is_reference
from builder.inspect.oci.contract import image_json, image_text
from builder.inspect.oci.facts import ContainerFacts, Entry, LayerFacts, Root

__all__ = [
    "REMOTE",
    "ContainerFacts",
    "Entry",
    "LayerFacts",
    "Root",
    "base_of",
    "image_json",
    "image_text",
    "inspect_image",
    "is_reference",
]
