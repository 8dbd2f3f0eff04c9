"""verify_wheel, the expectations of real recipes, and the verb."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import builder
from builder.context import Context
from builder.errors import DigestError, InspectError, NegativeVerdict, UsageError
from builder.inspect import inspect_path
from builder.inspect.facts import ObjectFacts
from builder.model import Recipe, VerifiedWheel, Wheel
from builder.recipe import known, load
from builder.recipe.tables import VERIFY_RULES
from builder.verify import expectations_for, run_verb, verify_wheel
from builder.verify.picture import page, picture_of
from builder.verify.symbols import Hint
from builder.verify.timeline import timeline_of
from tests.verify.conftest import ROOT, SAMPLES, MakeWheel, as_wheel, sample


def test_a_good_wheel_becomes_a_verified_one(wheel: Wheel, recipe: Recipe, context: Context) -> None:
    verified = verify_wheel(wheel, recipe, recipe.package("demo"), context)
    assert isinstance(verified, VerifiedWheel)
    assert verified.verdict.good
    assert verified.wheel is wheel


def test_a_refusal_tells_every_finding(make_wheel: MakeWheel, recipe: Recipe, context: Context) -> None:
    path = make_wheel({"demo/_X.so": sample("launch_sm_75.so")})
    with pytest.raises(NegativeVerdict) as caught:
        verify_wheel(as_wheel(path), recipe, recipe.package("demo"), context)
    text = str(caught.value)
    assert "4 findings" in text
    assert "arch: demo/_X.so: no code that runs on 12.1" in text
    assert "component: _C: the recipe asks for _C" in text
    assert "read configure's log" in text


def test_a_wheel_that_changed_after_it_was_built(wheel: Wheel, recipe: Recipe, context: Context) -> None:
    with pytest.raises(DigestError, match="changed after it was built"):
        verify_wheel(replace(wheel, sha256="0" * 64), recipe, recipe.package("demo"), context)


def test_expectations_follow_from_the_recipe() -> None:
    recipe = load("aeon7", ROOT)
    wanted = expectations_for(recipe, recipe.package("vllm"), ROOT)
    assert (wanted.device, wanted.machine, wanted.torch, wanted.cuda_major) == ("12.1", "aarch64", "2.11.0", "13")
    assert wanted.archs[0] == "sm_121a"
    assert {proof.needs for proof in wanted.proofs} == {"OMMA", "QMMA", "F2FP.E2M1"}
    assert all(exempt.reason and exempt.needed for exempt in wanted.exempt)
    assert {exempt.rule for exempt in wanted.exempt} == {"jit", "empty"}
    assert ("sm_80", "compute_80") in {built.archs for built in wanted.built}
    cache = expectations_for(recipe, recipe.package("flashinfer-jit-cache"))
    assert [exempt.name for exempt in cache.exempt] == ["*common8fakeCastIffE*"]
    assert all(proof.object.startswith("*/") for proof in cache.proofs)


@pytest.mark.parametrize("name", known(ROOT))
def test_every_recipe_gives_expectations_for_every_package(name: str) -> None:
    recipe = load(name, ROOT)
    for package in recipe.packages:
        assert expectations_for(recipe, package, ROOT).name == package.name


def test_the_rules_that_exceptions_may_name_are_those_that_exist() -> None:
    folder = Path(builder.__file__).parent
    found = {"wheel-name", "wheel-version"}  # inspect makes these two of one text
    sources = [*(folder / "verify").glob("*.py"), *(folder / "inspect").glob("*.py")]
    for path in (path for path in sources if path.name != "provenance.py"):  # its findings know no exceptions
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"Fault", "Finding"}:
                first = node.args[0] if node.args else None
                found |= {first.value} if isinstance(first, ast.Constant) and isinstance(first.value, str) else set()
    assert found - {"exception"} == set(VERIFY_RULES)


def test_the_verb_against_a_device(context: Context) -> None:
    good = run_verb([str(SAMPLES / "launch_zstd.so")], {"device": "12.1"}, context, ROOT)
    assert good[2]
    document, text, verdict = run_verb([str(SAMPLES / "launch_sm_75.so")], {"device": "12.1"}, context, ROOT)
    assert not verdict
    assert json.loads(json.dumps(document)) == document
    file = document["files"][0]
    assert (document["version"], document["good"], file["device"]) == (1, False, "12.1")
    assert file["objects"] == [{"path": "launch_sm_75.so", "archs": ["sm_75"], "native": 0, "jit": 0, "none": 1}]
    assert [finding["rule"] for finding in file["findings"]] == ["arch"]
    assert "launch_sm_75.so: 1 finding" in text
    assert file["findings"][0]["remedy"] in text


def test_the_verb_shows_what_was_proven(
    wheel: Wheel, recipe: Recipe, context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proof = {"package": "demo", "object": "demo/_C.so", "kernel": "*scale*", "needs": "OMMA"}
    asked = replace(recipe, verify={"instructions": [proof]})
    monkeypatch.setattr("builder.verify.verb.load", lambda *_: asked)
    document, text, good = run_verb([str(wheel.path)], {"recipe": "demo"}, context, tmp_path)
    assert not good
    assert document["files"][0]["proven"] == [
        {"object": "demo/_C.so", "kernel": "*scale*", "needs": "OMMA", "kernels": 0, "count": 0}
    ]
    assert "0 kernels like *scale* with OMMA (0)" in text
    assert [finding["rule"] for finding in document["files"][0]["findings"]] == ["instruction"]


def test_the_verb_takes_a_folder_of_wheels(make_wheel: MakeWheel, context: Context) -> None:
    path = make_wheel()
    document, _, good = run_verb([str(path.parent)], {"device": "12.1"}, context, ROOT)
    assert good
    assert [file["path"] for file in document["files"]] == [str(path)]


def test_the_verb_takes_a_folder_of_objects(context: Context, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.so").write_bytes(sample("launch_zstd.so"))
    document, _, good = run_verb([str(tmp_path / "a")], {"device": "12.1"}, context, ROOT)
    assert good
    assert document["files"][0]["objects"][0]["path"] == "x.so"


@pytest.mark.parametrize(
    ("words", "options", "told"),
    [
        (["x.whl"], {}, "say what to hold it against"),
        (["x.whl"], {"device": "12.1", "recipe": "aeon7"}, "say what to hold it against"),
        (["x.whl"], {"device": "12"}, "'12' is no device"),
        (["absent.whl"], {"device": "12.1"}, "there is no absent.whl"),
        ([], {"device": "12.1"}, "no file to verify"),
        (["x.whl"], {"devise": "12.1"}, "did you mean device=?"),
        ([str(SAMPLES / "launch_zstd.so")], {"recipe": "aeon7"}, "is of no package of recipe aeon7"),
    ],
)
def test_what_the_verb_refuses(
    context: Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    options: dict[str, str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.whl").write_bytes(b"")
    with pytest.raises(UsageError, match=re.escape(told)):
        run_verb(words, options, context, ROOT)


class _Page(HTMLParser):
    """Tags that stand open, every address, and rectangles that leave their drawing."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.outside: list[str] = []
        self.drawings: list[list[str]] = []
        self.width = 0.0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self.addresses += [named[name] for name in ("src", "href", "xlink:href") if name in named]
        if tag == "svg":
            self.width = float(named["viewbox"].split()[2])
            self.drawings.append([])
        elif tag == "rect":
            self.drawings[-1].append(named["class"].split()[0])
            ends = float(named["x"]) + float(named["width"])
            self.outside += [str(named)] if ends > self.width + 0.2 else []
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(html: str) -> _Page:
    found = _Page()
    found.feed(html)
    assert found.open == []
    assert found.addresses == []
    assert found.outside == []
    assert "<script" not in html
    return found


def test_the_report_is_whole_by_itself(make_wheel: MakeWheel, context: Context, tmp_path: Path) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo/<b>.o": sample("guard_sm_121a.o")})
    options = {"device": "12.1", "against": str(path), "html": str(tmp_path / "report.html")}
    run_verb([str(path)], options, context, ROOT)
    html = (tmp_path / "report.html").read_text()
    drawings = parsed(html).drawings
    assert drawings[0] == drawings[1] == ["native", "empty", "trap"]
    assert "<b>.o" not in html
    assert "demo/&lt;b&gt;.o" in html
    assert html.count(">before</div>") == html.count(">after</div>") == 3
    assert "findings on 12.1" in html
    assert html.index("only trap") < html.index("widen it to the device&#39;s family") < html.index("<section>")
    assert "prefers-color-scheme: dark" in html


def test_the_report_shows_what_only_one_of_the_wheels_has(
    make_wheel: MakeWheel, context: Context, tmp_path: Path
) -> None:
    official = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo/_old.so": sample("launch_sm_75.so")})
    (tmp_path / "ours").mkdir()
    ours = official.rename(tmp_path / "ours" / official.name)
    new = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo/_new.so": sample("launch_plain.so")})
    run_verb([str(new)], {"device": "12.1", "against": str(ours), "html": str(tmp_path / "r.html")}, context, ROOT)
    html = (tmp_path / "r.html").read_text()
    parsed(html)
    assert html.count("before; not in this one") == html.count("not in the other one") == 1
    assert html.index("demo/_new.so") < html.index("demo/_old.so")


def test_the_other_wheel_is_drawn_beside_its_own_project_alone(
    make_wheel: MakeWheel, context: Context, tmp_path: Path
) -> None:
    demo, other = make_wheel(), make_wheel(name="other")
    (tmp_path / "before").mkdir()
    before = make_wheel().rename(tmp_path / "before" / demo.name)
    make_wheel()
    options = {"device": "12.1", "against": str(before), "html": str(tmp_path / "r.html")}
    document, text, _ = run_verb([str(demo), str(other)], options, context, ROOT)
    assert [file["against"] for file in document["files"]] == [{"path": str(before), "other_version": ""}, None]
    html = (tmp_path / "r.html").read_text()
    assert (html.count(">before</div>"), html.count("<br>before: ")) == (2, 1)
    assert "another version" not in html + text
    with pytest.raises(UsageError, match="is a wheel of demo"):
        run_verb([str(other)], options, context, ROOT)


def test_another_version_to_compare_with_is_told(make_wheel: MakeWheel, context: Context, tmp_path: Path) -> None:
    new, old, local = make_wheel(), make_wheel(version="0.9"), make_wheel(version="1.0+x")
    options = {"device": "12.1", "against": str(old), "html": str(tmp_path / "r.html")}
    document, text, _ = run_verb([str(new)], options, context, ROOT)
    assert document["files"][0]["against"]["other_version"] == "0.9"
    assert "before is of another version: 0.9" in text
    assert "of another version, 0.9" in (tmp_path / "r.html").read_text()
    document, text, _ = run_verb([str(new)], options | {"against": str(local)}, context, ROOT)
    assert document["files"][0]["against"]["other_version"] == ""
    assert "another version" not in text


def test_only_a_wheel_of_the_same_project_knows_the_owner(
    make_wheel: MakeWheel, recipe: Recipe, context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("builder.verify.verb.load", lambda *_: recipe)
    known: list[list[str]] = []

    def hint_from(_package: object, _store: object, objects: Iterable[ObjectFacts]) -> Hint:
        known.append([found.path for found in objects])
        return lambda _: ""

    monkeypatch.setattr("builder.verify.verb.hint_from", hint_from)
    demo, other, old = make_wheel(), make_wheel(name="other"), make_wheel(version="0.9")
    for path, before in ((demo, old), (demo, other), (demo, SAMPLES / "nothing.so")):
        words = [str(path), str(other)] if before == other else [str(path)]
        run_verb(words, {"recipe": "demo", "package": "demo", "against": str(before)}, context, tmp_path)
    assert known == [["demo/_C.so"], [], [], ["nothing.so"]]


def test_a_report_of_a_good_wheel_says_so_and_of_an_object_without_kernels(context: Context, tmp_path: Path) -> None:
    run_verb([str(SAMPLES / "glibc.so")], {"device": "12.1", "html": str(tmp_path / "r.html")}, context, ROOT)
    html = (tmp_path / "r.html").read_text()
    parsed(html)
    assert "Good on 12.1" in html
    assert "Without kernels: glibc.so" in html


TRACE = {
    "traceEvents": [
        {"ph": "M", "name": "thread_name", "tid": 100, "args": {"name": "slot <1>"}},
        {"ph": "X", "tid": 100, "ts": 5e6, "dur": 10e6, "name": "a.cu", "cat": "compiled"},
        {"ph": "X", "tid": 100, "ts": 6e6, "dur": 2e6, "name": "ptxas", "cat": "step"},
        {"ph": "X", "tid": 100, "ts": 7e6, "dur": 2e6, "name": "inside", "cat": "compiled"},
        {"ph": "X", "tid": 200, "ts": 6e6, "dur": 1e6, "name": "b.cu", "cat": "hit"},
        {"ph": "X", "tid": 200, "ts": 7e6, "dur": 8e6, "name": "c.cu", "cat": "odd"},
    ]
}


def test_a_timeline_is_data_of_any_tool(context: Context, tmp_path: Path) -> None:
    found = timeline_of(TRACE)
    assert found.seconds == 10
    assert [(name, [(bar.name, bar.state, bar.start, bar.seconds) for bar in bars]) for name, bars in found.tracks] == [
        ("slot <1>", [("a.cu", "compiled", 0, 10)]),
        ("track 200", [("b.cu", "hit", 1, 1), ("c.cu", "", 2, 8)]),
    ]
    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    options = {"device": "12.1", "html": str(tmp_path / "r.html"), "timeline": str(tmp_path / "trace.json")}
    run_verb([str(SAMPLES / "launch_zstd.so")], options, context, ROOT)
    html = (tmp_path / "r.html").read_text()
    assert parsed(html).drawings[-2:] == [["compiled"], ["hit", "compiled"]]
    assert "How the build went: 10 s" in html
    assert "slot &lt;1&gt;" in html
    assert page([], timeline=timeline_of({"traceEvents": []}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": [{"ph": "X"}]}', '{"traceEvents": 3}'])
def test_a_trace_that_is_none(context: Context, tmp_path: Path, text: str) -> None:
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(UsageError, match="is no trace"):
        run_verb(
            [str(SAMPLES / "launch_zstd.so")],
            {"device": "12.1", "timeline": str(tmp_path / "trace.json")},
            context,
            ROOT,
        )


@pytest.mark.parametrize("there", [False, True])
def test_a_recipe_without_wheels_is_told_how_to_build_them(context: Context, tmp_path: Path, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        (out / "aeon7" / "wheels").mkdir(parents=True)
    with pytest.raises(UsageError, match="no wheels of recipe aeon7") as caught:
        run_verb([], {"recipe": "aeon7", "out": str(out)}, context, ROOT)
    assert f"python -m builder build recipe=aeon7 out={out}, or name a wheel" in str(caught.value)


def test_a_recipe_that_is_none_is_told_before(context: Context, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'aeon7'"):
        run_verb([], {"recipe": "aeon8", "out": str(tmp_path)}, context, ROOT)


def test_a_folder_without_anything_to_verify_is_not_good(context: Context, tmp_path: Path) -> None:
    (tmp_path / "read.me").write_text("nothing")
    with pytest.raises(InspectError, match="nothing to inspect in this folder: 1 file,"):
        run_verb([str(tmp_path)], {"device": "12.1"}, context, ROOT)


def test_a_picture_has_a_column_for_every_kernel() -> None:
    picture = picture_of(inspect_path(SAMPLES / "guard_sm_121a.o").objects[0], "12.1")
    assert (picture.kernels, [row.label for row in picture.rows]) == (5, ["on 12.1", "sm_121a"])
    assert [(s.state, s.count) for s in picture.rows[0].segments] == [("native", 1), ("empty", 1), ("trap", 3)]
    assert picture.rows[1].segments == picture.rows[0].segments
    mixed = picture_of(inspect_path(SAMPLES / "scale.fatbin").objects[0], "12.1")
    assert [(r.label, [s.state for s in r.segments]) for r in mixed.rows] == [
        ("on 12.1", ["native"]),
        ("sm_90", ["none"]),
        ("sm_120f", ["native"]),
        ("compute_120a", ["none"]),
    ]


def test_every_rule_is_in_the_docs() -> None:
    table = (ROOT / "docs" / "verify.md").read_text().partition("## In a recipe")[0]
    told = {
        rule.strip() for line in table.splitlines() if line.startswith("| ") for rule in line.split("|")[1].split(",")
    }
    assert told - {"rule"} == {*VERIFY_RULES, "exception"}
