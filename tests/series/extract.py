"""Run single functions of upstream's files: what is asked for, compiled as written, and nothing else.

The modules import torch and much more; most of the series edits plain Python inside them.
"""

from __future__ import annotations
import __future__ as future

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LAZY = future.annotations.compiler_flag


def extract(path: Path, *names: str, given: Mapping[str, object]) -> dict[str, Any]:
    """The named functions and classes of a file, run over the names `given`.

    `Class` is the whole class, `Class.method` a class of that name, without bases or decorators,
    that has just the methods asked for. Annotations are not evaluated.
    """
    module = ast.parse(path.read_bytes(), str(path))
    space = dict(given)
    for node in _bodies(module, names):
        code = compile(
            ast.fix_missing_locations(ast.Module([node], [])), str(path), "exec", flags=_LAZY, dont_inherit=True
        )
        exec(code, space)  # noqa: S102  upstream's own code is what is tested
    return space


def _bodies(module: ast.Module, names: tuple[str, ...]) -> list[ast.stmt]:
    tops = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    methods: dict[str, set[str]] = {}
    for name in names:
        top, _, method = name.partition(".")
        methods.setdefault(top, set()).add(method)
    return [_only(tops[top], wanted) for top, wanted in methods.items()]


def _only(node: ast.FunctionDef | ast.ClassDef, methods: set[str]) -> ast.stmt:
    if methods == {""} or isinstance(node, ast.FunctionDef):
        return node
    body: list[ast.stmt] = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name in methods]
    absent = methods - {n.name for n in body if isinstance(n, ast.FunctionDef)}
    if absent:
        raise LookupError(f"{node.name} has no {', '.join(sorted(absent))}")
    node.bases, node.keywords, node.body, node.decorator_list = [], [], body, []
    return node
