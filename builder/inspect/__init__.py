"""Bytes to facts: what a wheel or binary really contains. Knows nothing of recipes.

`inspect_path` reads, `to_json` and `to_text` tell, `facts` has the records.
"""

from builder.inspect.api import inspect_path
from builder.inspect.contract import to_json, to_text
from builder.inspect.facts import (
    CLASSES,
    CodeFacts,
    DeviceFacts,
    ElfFacts,
    FileFacts,
    ImageFacts,
    KernelFacts,
    ObjectFacts,
    WheelFacts,
)

__all__ = [
    "CLASSES",
    "CodeFacts",
    "DeviceFacts",
    "ElfFacts",
    "FileFacts",
    "ImageFacts",
    "KernelFacts",
    "ObjectFacts",
    "WheelFacts",
    "inspect_path",
    "to_json",
    "to_text",
]
