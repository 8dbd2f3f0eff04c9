"""Who should define a symbol that nobody does: another wheel's object, or a source file that was not built."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from builder.git import Objects
from builder.inspect.facts import ObjectFacts
from builder.model import Package
from builder.store import Store
from builder.verify.symbols import Hint

_COMPILED = (".cu", ".cpp", ".cc", ".c", ".cxx")
_TYPE = rb"^(?!\s*(?:if|else|while|for|switch|return)\b)[\w:<>,&*\[\] \t]*\b"
_LENGTH = re.compile(r"\d{1,9}")


def hint_from(package: Package, store: Store, before: Iterable[ObjectFacts] = ()) -> Hint:
    """Asks the objects of another wheel (`before`) first, then the package's patched tree, if the store has it."""
    known = {name: found.path for found in before for name in found.elf.exported}
    git_dir = store.git_dir(package.source or package.name)
    texts: dict[str, bytes] = {}

    def hint(name: str) -> str:
        if name in known:
            return f"{known[name]} of the other wheel has it"
        if not texts:
            texts.update(_compiled(git_dir, package.result_tree))
        path = defined_in(identifier(name), texts)
        return f"{path} defines it, and no object holds it" if path else ""

    return hint


def identifier(name: str) -> str:
    """The plain name of a function: `f` of `_ZN2ns1fEv`, `_Z1fv` and `f`."""
    if not name.startswith("_Z"):
        return name
    at, found = 2 + (name[2:3] == "N"), name
    while match := _LENGTH.match(name, at):
        at = match.end() + int(match[0])
        found = name[match.end() : at]
        if name[2:3] != "N":
            break
    return found


def defined_in(function: str, texts: dict[str, bytes]) -> str:
    """The first file whose text defines a function of that name."""
    wanted = function.encode()
    body = re.compile(_TYPE + re.escape(wanted) + rb"\s*\([^;{}]*\)\s*(?:const\s*|noexcept\s*)*\{", re.MULTILINE)
    return next((path for path, text in texts.items() if wanted in text and body.search(text)), "")


def _compiled(git_dir: Path, tree: str) -> dict[str, bytes]:
    if not git_dir.is_dir():
        return {"": b""}
    objects = Objects(git_dir)
    if not objects.has(tree):
        return {"": b""}
    files = objects.files(tree).items()
    return {path: objects.read(entry.oid) for path, entry in files if path.endswith(_COMPILED)} or {"": b""}
