"""The house stands as ARCHITECTURE.md and pyproject.toml say, and stays small enough to read."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import grimp
import pytest

from builder import commands
from builder.__main__ import VERBS
from builder.model import Recipe
from builder.pipeline import LINE, Options, Shipped

ROOT = Path(__file__).parents[1]
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "builder").rglob("*.py"))}
MODULES = {
    path.stem for path in (ROOT / "builder").iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
}
PLACES = MODULES - {"__init__"}

MODULE_LINES = 400
FUNCTION_LINES = 60


# -- the table --------------------------------------------------------------------------------


def _rows() -> list[tuple[list[str], str]]:
    """The table of ARCHITECTURE.md from the top: the places of a row, and what they may import."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").replace("\\_", "_")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0].split(", "), row[2]) for row in cells if row[0] != "place"]


def _table() -> dict[str, set[str]]:
    """Each place with the places that it may import, by the table."""
    allowed: dict[str, set[str]] = {}
    for places, words in _rows():
        above = set(allowed)
        base, _, without = words.partition(" but ")
        if base in {"the above", "all above"}:
            may = above - set(without.split(", "))
        else:
            may = set() if base == "nothing" else set(base.split(", "))
        assert may <= above, f"{places} may only import what stands above"
        allowed |= dict.fromkeys(places, may)
    return allowed


def _contracts(kind: str) -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == kind]


def _names(modules: list[str]) -> set[str]:
    return {module.removeprefix("builder.") for module in modules}


def _contracted() -> dict[str, set[str]]:
    """Each place with the places that it may import, by the contracts of pyproject.toml."""
    (layers,) = _contracts("layers")
    rows = [row.split(" | ") for row in layers["layers"]]
    allowed = {
        place: {p for row in rows[number + 1 :] for p in row} for number, row in enumerate(rows) for place in row
    }
    for each in _contracts("independence"):
        for place in _names(each["modules"]):
            allowed[place] -= _names(each["modules"])
    for each in _contracts("forbidden"):
        for place in _names(each["source_modules"]):
            allowed[place] -= _names(each["forbidden_modules"])
    return allowed


def test_the_table_names_every_module_and_no_other() -> None:
    assert set(_table()) == PLACES
    assert set(_contracted()) == PLACES


def _beside() -> dict[str, set[str]]:
    """Each place with those on its own row of the layers: they may not import one another."""
    (layers,) = _contracts("layers")
    return {place: set(row.split(" | ")) - {place} for row in layers["layers"] for place in row.split(" | ")}


@pytest.mark.parametrize("place", sorted(PLACES))
def test_the_contracts_say_what_the_table_says(place: str) -> None:
    table, contracted = _table()[place], _contracted()[place]
    assert contracted - table == set(), "the contracts allow what the table does not"
    assert table - contracted <= _beside()[place], "the table allows what the contracts do not"


def test_every_import_is_one_that_the_table_allows() -> None:
    graph = grimp.build_graph("builder", cache_dir=None)
    allowed = _table()
    seen, wrong = 0, []
    for module in graph.modules:
        place = _place(module)
        for other in map(_place, graph.find_modules_directly_imported_by(module)):
            if place and other and place != other:
                seen += 1
                if other not in allowed[place]:
                    wrong.append(f"{module} imports {other}")
    assert seen > 100
    assert sorted(wrong) == []


def _place(module: str) -> str:
    return module.removeprefix("builder").removeprefix(".").split(".")[0]


def test_every_place_says_what_it_owns() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert all(len(row) == 3 and row[1] for row in cells)


# -- the line ---------------------------------------------------------------------------------


def test_each_stages_result_is_the_next_ones_input() -> None:
    value: object = Recipe
    for stage in LINE:
        hints = get_type_hints(stage.run)
        result = hints.pop("return")
        taken, *others = hints.values()
        assert taken is value, stage.name
        assert others[0] is Options
        value = result
    assert value is Shipped


def test_the_line_of_the_architecture_is_the_line() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (drawn,) = [line for line in text.splitlines() if line.startswith("    Recipe ")]
    assert re.findall(r"─(\w+)→", drawn) == [stage.name for stage in LINE]


# -- the doors --------------------------------------------------------------------------------


TREES = {path.relative_to(ROOT): ast.parse(text) for path, text in SOURCES.items()}


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _named(node: ast.AST) -> list[str]:
    """What a node names: a name, a dotted attribute, or the things that an import brings."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [_dotted(node)] if isinstance(node, ast.Attribute | ast.Name) else []


NAMED = {str(path): {name for node in ast.walk(tree) for name in _named(node)} for path, tree in TREES.items()}


def _users(pattern: str) -> set[str]:
    """Files that name something that the pattern matches wholly."""
    return {path for path, names in NAMED.items() if any(re.fullmatch(pattern, name) for name in names)}


APART = ("builder/compile/facade/", "builder/compile/gate/")
"""Programs of their own, which upstream's build starts: they import nothing of the package."""


def _ours(users: set[str]) -> set[str]:
    return {path for path in users if not path.startswith(APART)}


def test_programs_apart_import_nothing_of_the_package() -> None:
    told = [(path, name) for path, names in NAMED.items() if path.startswith(APART) for name in names]
    assert not [pair for pair in told if re.match(r"builder\b", pair[1])]


def test_only_main_exits() -> None:
    assert _ours(_users(r"sys\.exit|os\._exit|os\.abort|exit|quit|SystemExit")) == {"builder/__main__.py"}


def test_subprocesses_only_through_run() -> None:
    spawning = r"subprocess(\..*)?|os\.(system|popen|fork|forkpty|exec\w+|spawn\w+|posix_spawn\w*)|pty(\..*)?"
    assert _ours(_users(spawning)) == {"builder/run.py"}
    assert _users(r"asyncio\.create_subprocess_\w+") == set()


def test_no_shell_anywhere() -> None:
    calls = [node for _, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [call for call in calls for word in call.keywords if word.arg == "shell"]


def test_only_main_prints() -> None:
    facade = {path for path in _users("print") if path.startswith("builder/compile/facade/")}
    assert _users("print") - facade == {"builder/__main__.py"}


# -- nox --------------------------------------------------------------------------------------

NOXFILE = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))


def _sessions() -> dict[str, ast.FunctionDef]:
    functions = [node for node in NOXFILE.body if isinstance(node, ast.FunctionDef)]
    return {node.name: node for node in functions if any("session" in ast.dump(each) for each in node.decorator_list)}


def test_the_noxfile_knows_nothing_of_builder() -> None:
    imported = [alias.name for node in ast.walk(NOXFILE) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(NOXFILE) if isinstance(node, ast.ImportFrom)]
    assert sorted(imported) == ["__future__", "nox"]


def test_every_verb_is_a_session_of_its_name_and_calls_itself() -> None:
    called = {}
    for name, function in _sessions().items():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _dotted(node.func) == "_builder":
                called[name] = ast.literal_eval(node.args[1])
    assert called == {verb: verb for verb in VERBS}
    assert all(ast.get_docstring(function) for function in _sessions().values())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_function_with_a_line_for_the_help(verb: str) -> None:
    function = getattr(commands, verb)
    assert get_type_hints(function) == {"request": commands.Request, "return": commands.Outcome}
    assert function.__doc__.endswith(".")


# -- size -------------------------------------------------------------------------------------


def test_no_module_is_too_long_to_read_in_one_sitting() -> None:
    longest = sorted(
        ((len(text.splitlines()), str(path.relative_to(ROOT))) for path, text in SOURCES.items()), reverse=True
    )
    assert longest[0][0] <= MODULE_LINES, longest[:5]


def test_no_function_is_too_long() -> None:
    lengths = [
        ((node.end_lineno or 0) - node.lineno + 1, f"{path}:{node.name}")
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths.sort(reverse=True)
    assert lengths[0][0] <= FUNCTION_LINES, lengths[:5]
    assert lengths[len(lengths) // 2][0] <= 12, "in the middle, functions are about a dozen lines"


@pytest.mark.parametrize("path", TREES, ids=str)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(TREES[path]), path
