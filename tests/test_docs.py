"""The documents name commands, options, files and sections that exist; workflows call sessions that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from builder import commands
from builder.__main__ import VERBS
from builder.patches import verbs as patch_verbs
from builder.publish import verbs as publish_verbs
from builder.verify import verb as verify_verb
from builder.verify.image import verb as image_verb

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = [ROOT / ".ci" / "run", *WORKFLOWS]
DEV_WORDS = {"test", "help"}

_CALL = re.compile(
    r"(?:(?P<dev>\./dev)|(?P<nox>nox\s+(?:--\S+\s+)*-s)|(?P<module>python3? -m builder))"
    r"(?P<rest>(?:[ ]+(?!\||&&|;|#|>|2>)[^\s`|&;#)\]]+)*)"
)


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _sessions() -> set[str]:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if any("session" in ast.dump(each) for each in node.decorator_list)}


def _options() -> dict[str, set[str]]:
    """Each verb with the options that it knows, read from the code that refuses all others."""
    tree = ast.parse(Path(commands.__file__).read_text(encoding="utf-8"))
    known: dict[str, set[str]] = {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in VERBS):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "_options":
                known[function.name] = {ast.literal_eval(argument) for argument in call.args[1:]}
    known["verify"] = set(verify_verb._OPTIONS) | set(image_verb.OPTIONS)
    known["publish"] = {name for names in publish_verbs._TAKES.values() for name in names} | {"index", "out"}
    known["patches"] = {name for names in patch_verbs._OPTIONS.values() for name in names} | {"store", "out"}
    return known


def _calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Every call of the program in a text: the session or verb, and its words."""
    for found in _CALL.finditer(text.replace("\\\n", " ")):
        words = [word.strip("\"',.:…") for word in found["rest"].split()]
        words = [word for word in words if word and word not in {"--", "--json"}]
        if found["nox"]:
            sessions = [word for word in words if "=" not in word and word in _sessions()]
            yield (words[0], words[1:]) if len(sessions) < 2 else (sessions[0], [])
        elif words:
            yield words[0], words[1:]


def _wrong(text: str) -> list[str]:
    """What is wrong with each call in a text."""
    faults = []
    for name, words in _calls(text):
        if name in {"VERB", "SESSION"}:
            continue
        if name not in _sessions() | DEV_WORDS and name not in VERBS:
            faults.append(f"there is no {name}")
            continue
        known = _options().get(name, set())
        faults += [f"{name} knows no {word}" for word in words if "=" in word and _option(word) not in known]
        if name == "patches" and words and "=" not in words[0] and words[0] not in patch_verbs._OPTIONS:
            faults.append(f"patches has no verb {words[0]}")
    return faults


def _option(word: str) -> str:
    return word.lstrip("[").partition("=")[0]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("run `./dev biuld recipe=x`", "there is no biuld"),
        ("    nox -s plan -- recip=smoke", "plan knows no recip=smoke"),
        ("python -m builder frob", "there is no frob"),
        ("`./dev patches sttus recipe=aeon7`", "patches has no verb sttus"),
        ("./dev build recipe=smoke \\\n  jbos=2", "build knows no jbos=2"),
        ("nox -s lint", ""),
        ("./dev test && ./dev plan recipe=smoke # x=y", ""),
        ("python -m builder inspect PATH --json | jq .a=b", ""),
        ("nox --no-error-on-missing-interpreters -s verify -- device=12.1", ""),
    ],
)
def test_the_reader_of_commands_sees_each_kind_of_fault(text: str, fault: str) -> None:
    assert _wrong(text) == ([fault] if fault else [])


@pytest.mark.parametrize("path", [*DOCUMENTS, *SCRIPTS, ROOT / "noxfile.py"], ids=_ids)
def test_every_command_exists(path: Path) -> None:
    assert _wrong(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=_ids)
def test_options_named_in_passing_exist(path: Path) -> None:
    known = set().union(*_options().values())
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert set(re.findall(r"`([a-z]\w*)=(?!=)[^`\s]*`", text)) <= known


def test_the_readme_tells_every_option_of_a_build() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"(?s)Options of `build`:(.*?)\n\n", text)
    assert set(re.findall(r"`(\w+)=", told)) == _options()["build"] - {"recipe"}


def test_the_remedies_in_the_code_name_commands_that_exist() -> None:
    wrong = {}
    for path in sorted((ROOT / "builder").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        strings = [
            n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        faults = [fault for string in strings for fault in _wrong(string)]
        if faults:
            wrong[_ids(path)] = faults
    assert wrong == {}


def test_workflows_call_something() -> None:
    calls = [call for path in SCRIPTS for call in _calls(path.read_text(encoding="utf-8"))]
    assert ("test", []) in calls
    assert {"plan", "build", "verify"} <= {name for name, _ in calls}


@pytest.mark.parametrize("path", WORKFLOWS, ids=_ids)
def test_workflow_scripts_exist_and_actions_are_pinned_by_commit(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for script in re.findall(r"(?<![\w/])\.(?:/dev|ci/\w+)", text):
        assert (ROOT / script).is_file(), script
    uses = re.findall(r"uses: (\S+)", text)
    assert uses
    assert [use for use in uses if not re.fullmatch(r"[\w-]+(?:/[\w-]+)+@[0-9a-f]{40}", use)] == []


def _in_order(path: Path, *parts: str) -> bool:
    rest = path.read_text(encoding="utf-8")
    return all((rest := rest.partition(part)[2]) for part in parts)


def test_what_ci_signs_it_has_checked_and_what_it_takes_is_signed() -> None:
    build, image = (ROOT / f".github/workflows/{name}.yml" for name in ("build", "image"))
    checked, by = '/wheels" recipe="$RECIPE"\n', '/wheels" recipe="$RECIPE" identity='
    assert _in_order(build, "\n  attest:", checked, "./dev sign", by, "-signed", "\n  publish:", "-signed", "identity=")
    assert _in_order(image, "}}-signed\n", by, "./dev image", "image push", "${GITHUB_REPOSITORY,,}")
    assert not re.search(r"name: \$\{\{ inputs\.recipe \}\}\n", image.read_text(encoding="utf-8"))
    offering = build.read_text(encoding="utf-8").partition("\n  publish:")[2]
    branch = r"github\.ref == format\('refs/heads/\{0\}', github\.event\.repository\.default_branch\)"
    assert re.search(rf"\n    if: .*{branch}\n", offering), "a tag may be named as the branch is"


@pytest.mark.parametrize("path", WORKFLOWS, ids=_ids)
def test_no_job_that_builds_can_sign(path: Path) -> None:
    """What upstream's build or a distribution's packages run has no identity to ask for."""
    above, *rest = re.split(r"\n  (?=\w+:\n)", path.read_text(encoding="utf-8"))
    jobs = {job.partition(":")[0]: job for job in rest}
    assert "id-token" not in above
    assert {name for name, job in jobs.items() if "id-token: write" in job} <= {"attest"}
    assert not re.search(r"\./dev (?:build|image|test)", jobs.get("attest", ""))


# -- links and files --------------------------------------------------------------------------


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def _anchors(path: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {_anchor(heading) for heading in re.findall(r"(?m)^#+ (.*)$", text)}


@pytest.mark.parametrize("path", DOCUMENTS, ids=_ids)
def test_links_resolve(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"(?:href|src)=\"([^\"]+)\"", text)
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


_PATH = re.compile(
    r"`((?:builder|docs|tests|patches|recipes|locks|benchmarks|\.ci|\.github)/[^`\s]*|[\w.]+\.(?:md|toml|py))`"
)


@pytest.mark.parametrize("path", DOCUMENTS, ids=_ids)
def test_files_named_exist(path: Path) -> None:
    folders = [ROOT / folder for folder in ("builder", "docs", "recipes", "patches", "tests")]
    names = {found.name for folder in folders for found in folder.rglob("*")} | _upstream_files()
    for name in _PATH.findall(path.read_text(encoding="utf-8")):
        if re.search(r"[<>*{}]|NNNN|NAME|PATH", name):
            assert (ROOT / name.split("/")[0]).exists() or "/" not in name, name
        else:
            assert (ROOT / name.rstrip("/")).exists() or name in names, name


def test_what_the_documents_promise_of_recipes_exists() -> None:
    recipes = {path.stem for path in (ROOT / "recipes").glob("*.toml")}
    for path in (*DOCUMENTS, *WORKFLOWS):
        named = set(re.findall(r"\brecipe=([a-z][\w-]*)", path.read_text(encoding="utf-8")))
        assert named <= recipes, path


def test_the_names_of_the_environment_are_read_by_the_code() -> None:
    places = [path for folder in ("builder", "tests") for path in (ROOT / folder).rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in places)
    for path in DOCUMENTS:
        for name in re.findall(r"\bSPARK_WHEELS_\w+", path.read_text(encoding="utf-8")):
            assert f'"{name}"' in code, name


# -- our own pins -----------------------------------------------------------------------------


def _named(requirement: str) -> str:
    return re.split(r"[\[>=<; ]", requirement)[0].lower()


def test_locks_hold_every_dependency_with_hashes() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = settings["dependency-groups"]
    runtime = [_named(each) for each in settings["project"]["dependencies"]]
    dev = [_named(each) for name in ("test", "lint", "types") for each in groups[name]]
    sign = [_named(each) for each in groups["sign"]]
    for lock, wanted in (("runtime.txt", runtime), ("dev.txt", runtime + dev), ("sign.txt", sign)):
        text = (ROOT / "locks" / lock).read_text(encoding="utf-8")
        pinned = re.findall(r"(?m)^([\w.-]+)(?:\[[^\]]*\])?==", text)
        assert set(wanted) <= set(pinned), lock
        assert len(re.findall(r"--hash=sha256:", text)) >= len(pinned)


def _upstream_files() -> set[str]:
    """Names of upstream's files, with and without their folders, that a patch of ours touches."""
    diffs = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "patches").rglob("*.patch")))
    paths = re.findall(r"^\+\+\+ b/(\S+)", diffs, re.MULTILINE)
    return {*paths, *(path.rpartition("/")[2] for path in paths)}
