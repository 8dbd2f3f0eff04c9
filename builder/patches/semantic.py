"""What must be true of Python after a patch: it parses, and nothing was defined or keyed twice."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from builder.patches.diff import FilePatch
from builder.patches.probe import Probe, parsed
from builder.patches.view import View

_NAMED = re.compile(
    rb"^[ \t]*(?:(?:async )?def[ \t]+(\w+)|class[ \t]+(\w+)|(\"[^\"\n]*\"|'[^'\n]*'|\d+)[ \t]*:)", re.MULTILINE
)


def broken(before: View, after: View, files: Sequence[FilePatch]) -> tuple[str, ...]:
    """Complaints about changed Python files: no longer parsed, or newly repeated keys and definitions."""
    pairs = dict.fromkeys((item.old or item.new, item.new) for item in files if item.new and item.new.endswith(".py"))
    return tuple(told for old, new in pairs if old and new for told in _file(new, before.read(old), after.read(new)))


def unmet(probes: Iterable[Probe], view: View) -> tuple[str, ...]:
    """The probes that do not hold on a tree."""
    return tuple(probe.text for probe in probes if not probe.holds(view.read))


def _file(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    if new is None or new == old:
        return
    tree = parsed(new)
    if tree is None:
        if old is None or parsed(old) is not None:
            yield f"{path}: {_why(new)}"
    elif _may_repeat(old or b"", new):
        known = repeated(parsed(old or b""))
        for name, line in repeated(tree).items():
            if name not in known:
                yield f"{path}:{line}: {name} is there twice"


def _may_repeat(old: bytes, new: bytes) -> bool:
    """True when a name or key that was added stands elsewhere, too; a cheap question before a costly one."""
    before, after = (Counter(_NAMED.findall(data)) for data in (old, new))
    return any(after[name] > 1 for name in (after - before))


def _why(data: bytes) -> str:
    try:
        ast.parse(data)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error)
    return ""


def repeated(tree: ast.AST | None) -> dict[str, int]:
    """Keys written twice in one dictionary and names defined twice in one body, each with its line."""
    found: dict[str, int] = {}
    for node in ast.walk(tree) if tree is not None else ():
        names = _keys(node) if isinstance(node, ast.Dict) else _definitions(node)
        seen: set[str] = set()
        for name, line in names:
            if name in seen:
                found.setdefault(name, line)
            seen.add(name)
    return found


def _keys(node: ast.Dict) -> Iterator[tuple[str, int]]:
    for key in node.keys:
        if isinstance(key, ast.Constant):
            yield f"key {key.value!r}", key.lineno


def _definitions(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Plain definitions: those with decorators (overloads, property setters) may repeat."""
    for child in getattr(node, "body", ()) if isinstance(node, ast.Module | ast.ClassDef) else ():
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.decorator_list:
            yield f"definition {child.name}", child.lineno
