"""Reads the pinned target torch as text; never imports it."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(os.environ["SPARK_TORCH_DIR"])


def constant(file: str, name: str) -> Any:
    """The literal that the module assigns to `name`."""
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return ast.literal_eval(node.value)  # type: ignore[attr-defined]
    message = f"{ROOT / file} assigns no {name}"
    raise ImportError(message)


def new_cxx_abi() -> bool:
    """Which libstdc++ ABI the pinned torch was built with, from its CMake files."""
    text = (ROOT / "share/cmake/Torch/TorchConfig.cmake").read_text(encoding="utf-8")
    found = re.search(r"_GLIBCXX_USE_CXX11_ABI=(\d)", text)
    return found is None or found[1] == "1"
