"""Only builder.verify makes a VerifiedWheel: held over the syntax of every module."""

from __future__ import annotations

import ast
from pathlib import Path

import builder

ROOT = Path(builder.__file__).parent


def makers(source: str, noun: str = "VerifiedWheel") -> list[int]:
    """Lines that construct the noun: called under any name it was bound to, copied with changes, or built raw."""
    tree = ast.parse(source)
    names = {noun}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names if alias.name == noun}
        if isinstance(node, ast.Assign) and _is(node.value, names):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _is(call.func, names) or any(_is(arg, names) for arg in call.args)]


def _is(node: ast.expr, names: set[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in names) or (
        isinstance(node, ast.Attribute) and node.attr == "VerifiedWheel"
    )


def test_the_reader_sees_every_way_to_make_one() -> None:
    assert makers("from builder.model import VerifiedWheel\nVerifiedWheel(w, v)") == [2]
    assert makers("from builder.model import VerifiedWheel as V\nV(w, v)") == [2]
    assert makers("from builder import model\nmodel.VerifiedWheel(w, v)") == [2]
    assert makers("from builder.model import VerifiedWheel\nmake = VerifiedWheel\nmake(w, v)") == [3]
    assert makers("from builder.model import VerifiedWheel\nobject.__new__(VerifiedWheel)") == [2]
    assert makers("from builder.model import VerifiedWheel\ndef f(w: VerifiedWheel) -> VerifiedWheel: ...") == []


def test_only_verify_makes_a_verified_wheel() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if "facade" not in path.parts and (lines := makers(path.read_text()))
    }
    assert list(found) == ["verify/check.py"]
    assert len(found["verify/check.py"]) == 1
