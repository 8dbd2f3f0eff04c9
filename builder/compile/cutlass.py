"""The CUTLASS that vLLM is built with: the pinned copy inside FlashInfer's source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from builder.compile.workplace import checked_out
from builder.context import Context
from builder.errors import CompileError
from builder.git import Objects
from builder.model import PatchedTree

_HOLDER = "flashinfer-python"
_FOLDER = "3rdparty/cutlass"


def cutlass_folder(trees: Mapping[str, PatchedTree], context: Context) -> Path:
    """CUTLASS's headers at a canonical path; raises CompileError when no package brings them."""
    tree = trees.get(_HOLDER)
    if tree is None:
        raise CompileError(
            f"vllm needs CUTLASS, and the recipe has no {_HOLDER}",
            where="the recipe's packages",
            expected=f"{_HOLDER}, whose source holds {_FOLDER} at the pinned version",
            remedy=f"add {_HOLDER} to the recipe",
        )
    return checked_out("cutlass", Objects(tree.git_dir), cutlass_tree(trees), context)


def cutlass_tree(trees: Mapping[str, PatchedTree]) -> str:
    """The id of CUTLASS's tree; raises KeyError without its holder, SourceError without the folder."""
    tree = trees[_HOLDER]
    return Objects(tree.git_dir).subtree(tree.tree, _FOLDER)
