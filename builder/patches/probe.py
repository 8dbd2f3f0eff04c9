r"""Declarative questions about a tree or a wheel: PATH[@SCOPE]: [not] KIND [ARGUMENT].

    vllm/model_executor/models/registry.py: key _TEXT_GENERATION_MODELS Qwen3_5ForCausalLM
    vllm/config/vllm.py: def VllmConfig.adjust_cudagraph_sizes
    vllm/x.py: class MambaBase          (class NAME(BASE) asks for a base, too)
    vllm/x.py@MambaBase.get_spec: not assert mamba_block_size is not None
    vllm/x.py: import vllm._C           (anywhere in the file, try blocks included)
    vllm/x.py@get_spec: call max        (a call whose function is written so)
    vllm/x.py: code block_size = 16     (a statement or expression, compared as syntax)
    csrc/common.hpp: not text == 1200
    CMakeLists.txt: regex CUDA_SUPPORTED_ARCHS.*12\.1
    vllm/old.py: not exists
    vllm/new.py|vllm/old.py: def same   (the first of them that is there)

SCOPE is a function or class by its dotted name; `text` and `regex` work on any file, the others
read Python. A value may be put in double quotes. A file that is not there answers no, so that
`not …` of it is yes only for `exists`: "the assertion is gone" is not proven by a file that went.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

Reader = Callable[[str], bytes | None]
"""Gives the bytes of a path, or None when there is no such file."""

_PROBE = re.compile(r"(?P<path>[^:@]+?)(?:@(?P<scope>[\w.]+))?:\s+(?P<no>not\s+)?(?P<kind>[a-z]+)(?:\s+(?P<arg>.+))?")
_PYTHON = ("key", "def", "class", "assert", "import", "call", "code")
_KINDS = (*_PYTHON, "text", "regex", "exists")

_Node = ast.AST


class ProbeError(ValueError):
    """A probe that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One question. `text` is how it was written."""

    text: str
    path: str
    scope: str
    negated: bool
    kind: str
    argument: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the file may be, in the order in which it is looked for."""
        return tuple(self.path.split("|"))

    def holds(self, read: Reader) -> bool:
        """The answer on the files that `read` gives."""
        data = next((data for path in self.paths if (data := read(path)) is not None), None)
        if self.kind == "exists":
            return (data is not None) != self.negated
        if data is None:
            return False
        found = self._ask(data)
        return found is not None and found != self.negated

    def _ask(self, data: bytes) -> bool | None:
        """The plain answer; None when the scope is not there or the file does not parse."""
        if self.kind not in _PYTHON and not self.scope:
            return self._in_text(data.decode(errors="replace"))
        if not _mentions(data, self.scope):
            return None
        if not self.scope and not _mentions(data, self.argument):
            return False  # with a scope, the scope must be there first: its names may be another one's
        if self.kind in {"def", "class"} and not self.scope:
            named = _located(data, self.argument.partition("(")[0].strip())
            if named is not None:
                return _is_definition(named.node, self.kind, self.argument)
        found = _located(data, self.scope)
        if found is None:
            return None
        return _ASK[self.kind](found.node, self.argument) if self.kind in _PYTHON else self._in_text(found.source)

    def _in_text(self, text: str) -> bool:
        return (
            self.argument in text if self.kind == "text" else re.search(self.argument, text, re.MULTILINE) is not None
        )


def _mentions(data: bytes, words: str) -> bool:
    """True when every name in the words is somewhere in the file: asked before the costly parse."""
    return all(word.encode() in data for word in re.findall(r"[A-Za-z_]\w+", words))


@dataclass(frozen=True, slots=True)
class _Found:
    node: ast.AST
    source: str


def _located(data: bytes, scope: str) -> _Found | None:
    """A scope as syntax and text. A function is cut out by its indentation and parsed alone where that is sure."""
    block = _block(data.decode(errors="replace"), scope.split(".")) if scope else None
    alone = None if block is None else parsed(textwrap.dedent(block).encode(errors="replace"))
    if alone is not None and block is not None and len(alone.body) == 1:
        return _Found(alone.body[0], block)
    tree = parsed(data)
    node = None if tree is None else _scope(tree, scope)
    if node is None:
        return None
    lines = data.decode(errors="replace").splitlines()
    return _Found(node, "\n".join(lines[getattr(node, "lineno", 1) - 1 : getattr(node, "end_lineno", len(lines))]))


def _block(text: str, names: list[str]) -> str | None:
    """The lines of a definition in plain four-space layout, "" and None where the layout leaves doubts."""
    for depth, name in enumerate(names):
        indent = " " * (4 * depth)
        heads = list(re.finditer(rf"^{indent}(?:async def|def|class) {re.escape(name)}\b.*\n", text, re.MULTILINE))
        if len(heads) != 1:
            return None
        end = re.compile(rf"^ {{0,{4 * depth}}}[^\s#)\]}}]", re.MULTILINE).search(text, heads[0].end())
        text = text[heads[0].start() : end.start() if end else len(text)]
    return text


def parse_probe(text: str) -> Probe:
    """Read a probe; raises ProbeError that says the accepted form."""
    match = _PROBE.fullmatch(text.strip())
    if match is None:
        raise ProbeError(f"{text!r} is not PATH[@SCOPE]: [not] KIND ARGUMENT")
    kind, argument = match["kind"], _bare(match["arg"] or "")
    if kind not in _KINDS:
        raise ProbeError(f"unknown kind {kind!r}; known are {', '.join(_KINDS)}")
    if bool(argument) == (kind == "exists"):
        raise ProbeError("exists takes no argument" if argument else f"{kind} needs an argument")
    if kind in _PYTHON and not all(path.endswith(".py") for path in match["path"].split("|")):
        raise ProbeError(f"{kind} reads Python, and {match['path']} is none; use text or regex")
    _check_argument(kind, argument)
    return Probe(text.strip(), match["path"].strip(), match["scope"] or "", bool(match["no"]), kind, argument)


def _check_argument(kind: str, argument: str) -> None:
    try:
        if kind == "regex":
            re.compile(argument)
        elif kind in {"assert", "code", "call"}:
            _parse_code(argument)
        elif kind == "key" and len(argument.split(None, 1)) != 2:
            raise ProbeError("key needs a variable's name and a key")
    except (re.error, SyntaxError) as error:
        raise ProbeError(f"{argument!r}: {error}") from error


def _bare(argument: str) -> str:
    if len(argument) > 1 and argument[0] == argument[-1] == '"':
        try:
            (word,) = shlex.split(argument)
        except ValueError:
            return argument
        return word
    return argument


@lru_cache(maxsize=4)  # a syntax tree weighs a hundred times its source
def parsed(data: bytes) -> ast.Module | None:
    """The syntax tree of Python source, or None when it does not parse."""
    try:
        return ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _scope(tree: ast.AST, dotted: str) -> ast.AST | None:
    for name in filter(None, dotted.split(".")):
        inner = next((n for n in _definitions(tree) if n.name == name), None)
        if inner is None:
            return None
        tree = inner
    return tree


def _definitions(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and classes of a body, those under if, try and with included, not nested ones."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif not isinstance(node, ast.expr):
            yield from _definitions(node)


def _has_key(scope: ast.AST, argument: str) -> bool:
    name, key = argument.split(None, 1)
    wanted = key.strip("\"'")
    return any(
        isinstance(found, ast.Constant) and str(found.value) == wanted
        for value in _values(scope, name)
        for found in _elements(value)
    )


def _values(scope: ast.AST, name: str) -> Iterator[ast.AST]:
    """What a variable is set to, updated with or subscripted by, anywhere in the scope."""
    for node in ast.walk(scope):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if ast.unparse(target) == name:
                yield node.value
            elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
                yield ast.Set(elts=[target.slice])


def _elements(value: ast.AST) -> list[ast.AST]:
    if isinstance(value, ast.Dict):
        return [key for key in value.keys if key is not None]
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return list(value.elts)
    if isinstance(value, ast.Call):
        return [inner for argument in value.args for inner in _elements(argument)]
    return []


def _has_def(scope: ast.AST, argument: str) -> bool:
    return _is_definition(_scope(scope, argument), "def", argument)


def _has_class(scope: ast.AST, argument: str) -> bool:
    return _is_definition(_scope(scope, argument.partition("(")[0].strip()), "class", argument)


def _is_definition(node: ast.AST | None, kind: str, argument: str) -> bool:
    if kind == "def":
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    wanted = {base.strip() for base in argument.partition("(")[2].rstrip(") ").split(",") if base.strip()}
    return isinstance(node, ast.ClassDef) and wanted <= {ast.unparse(base) for base in node.bases}


def _has_assert(scope: ast.AST, argument: str) -> bool:
    wanted = _parse_code(argument)
    return any(isinstance(node, ast.Assert) and ast.unparse(node.test) == wanted for node in ast.walk(scope))


def _has_import(scope: ast.AST, argument: str) -> bool:
    for node in ast.walk(scope):
        if isinstance(node, ast.Import) and any(alias.name == argument for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if argument == module or any(argument == f"{module}.{alias.name}" for alias in node.names):
                return True
    return False


def _has_call(scope: ast.AST, argument: str) -> bool:
    wanted = _parse_code(argument)
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) == wanted for node in ast.walk(scope))


def _has_code(scope: ast.AST, argument: str) -> bool:
    wanted = ast.parse(argument).body[0]
    node = wanted.value if isinstance(wanted, ast.Expr) else wanted
    text = ast.unparse(node)
    return any(type(found) is type(node) and ast.unparse(found) == text for found in ast.walk(scope))


def _parse_code(text: str) -> str:
    return ast.unparse(ast.parse(text))


_ASK: dict[str, Callable[[ast.AST, str], bool]] = {
    "key": _has_key,
    "def": _has_def,
    "class": _has_class,
    "assert": _has_assert,
    "import": _has_import,
    "call": _has_call,
    "code": _has_code,
}
