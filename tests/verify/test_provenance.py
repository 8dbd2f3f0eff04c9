"""`verify provenance=`: a statement is held against the wheel, the record inside, the recipe and its files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.context import Context
from builder.errors import InspectError, UsageError
from builder.publish import statements
from builder.store import sha256_of
from builder.supply import RECORD_NAME, SUFFIX, materials, recipe_materials
from builder.verify import run_verb
from builder.verify.provenance import _pinned
from tests.publish.wheels import verified
from tests.supply.records import ROOT, recipe, record
from tests.supply.wheels import Change, unchanged, wheel

Document = dict[str, Any]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def shipped(out: Path, change: Change = unchanged) -> Path:
    """A wheel with its statement beside it, as a build leaves them."""
    path = wheel(out, change)
    data = statements([verified(path)], recipe(), ROOT)[path.name]
    (out / f"{path.name}{SUFFIX}").write_bytes(data)
    return path


def edit(path: Path, change: Callable[[Document], None]) -> None:
    paper = path.with_name(path.name + SUFFIX)
    said = json.loads(paper.read_bytes())
    change(said)
    paper.write_text(json.dumps(said))


def ask(context: Context, place: Path, *words: str, root: Path = ROOT, **options: str) -> tuple[Document, str, bool]:
    return run_verb(list(words), {"provenance": str(place), **options}, context, root)


def findings(context: Context, place: Path, root: Path = ROOT, **options: str) -> list[tuple[str, str]]:
    document, text, good = ask(context, place, root=root, **options)
    found = [(each["rule"], each["where"]) for file in document["files"] for each in file["findings"]]
    assert good is document["good"] is (not found)
    assert all(each["remedy"] in text for file in document["files"] for each in file["findings"])
    return found


def test_a_wheel_as_it_is_built_agrees_with_its_recipe(context: Context, out: Path) -> None:
    path = shipped(out)
    for place in (path, path.with_name(path.name + SUFFIX), out):
        document, text, good = ask(context, place, recipe="aeon7")
        assert good
        assert [file["path"] for file in document["files"]] == [str(path)]
        assert "agrees" in text
        assert "not asked who signed it" in text
        assert len(document["files"][0]["materials"]) > 40


def test_a_statement_from_elsewhere_with_the_wheel_named(context: Context, out: Path, tmp_path: Path) -> None:
    path = shipped(out)
    paper = shutil.move(out / f"{path.name}{SUFFIX}", tmp_path / "some.json")
    assert ask(context, Path(paper), str(path), recipe="aeon7")[2]
    with pytest.raises(UsageError, match="which wheel"):
        ask(context, Path(paper))


def test_without_a_recipe_the_record_in_the_wheel_is_the_measure(context: Context, out: Path) -> None:
    path = shipped(out)
    assert findings(context, path) == []
    edit(path, lambda said: said["predicate"]["buildDefinition"]["resolvedDependencies"].pop(0))
    assert findings(context, path) == [("build-record", "sdist vllm-0.20.0.tar.gz")]


def test_another_wheel_than_its_subject(context: Context, out: Path) -> None:
    path = shipped(out)
    with path.open("ab") as stream:
        stream.write(b"\0")
    assert ("subject", str(path)) in findings(context, path, recipe="aeon7")
    edit(path, lambda said: said["subject"][0].update(name="other.whl", digest={"sha256": sha256_of(path)}))
    assert findings(context, path) == [("subject", f"{path}{SUFFIX}")]


@pytest.mark.parametrize("part", ["externalParameters.target", "internalParameters.toolchain"])
def test_what_was_asked_is_held_against_the_record(context: Context, out: Path, part: str) -> None:
    path, (outer, inner) = shipped(out), part.split(".")
    edit(path, lambda said: said["predicate"]["buildDefinition"][outer][inner].update(more="12.0"))
    assert findings(context, path, recipe="aeon7") == [("build-record", outer)]


def _dependency(said: Document, kind: str, name: str = "") -> Document:
    every = said["predicate"]["buildDefinition"]["resolvedDependencies"]
    found: Document = next(d for d in every if d["annotations"]["kind"] == kind and d["name"].startswith(name))
    return found


@pytest.mark.parametrize(
    ("kind", "name", "digest"),
    [
        ("sdist", "", "sha256"),
        ("commit", "", "gitCommit"),
        ("patch", "vllm/0021", "sha256"),
        ("prebuilt", "", "sha256"),
        ("tool", "nvidia_cuda_nvcc", "sha256"),
        ("lock", "", "sha256"),
        ("part", "vllm-flash-attn", "gitCommit"),
    ],
)
def test_each_digest_is_held_against_its_pin(context: Context, out: Path, kind: str, name: str, digest: str) -> None:
    path = shipped(out)
    edit(path, lambda said: _dependency(said, kind, name).update(digest={digest: "1" * 40}))
    found = findings(context, path, recipe="aeon7")
    assert [rule for rule, where in found if rule == "pin" and where.startswith(f"{kind} {name}")] == ["pin"]
    if kind != "lock":
        assert any(rule == "build-record" and where.startswith(kind) for rule, where in found)


def _older_cutlass(value: Document) -> None:
    value["vendored"][0]["version"] = "4.3.0"


def _other_tree(value: Document) -> None:
    value["package"]["tree"] = "2" * 40


def _other_result(value: Document) -> None:
    value["package"]["result_tree"] = "2" * 40


def _patched_more(value: Document) -> None:
    value["patches"].append({**value["patches"][0], "file": "vllm/0099-quiet.patch"})


def _foreign_tool(value: Document) -> None:
    value["toolchain"]["files"].append(
        {"project": "evil", "version": "1", "filename": "evil-1-py3-none-any.whl", "sha256": "3" * 64}
    )


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_older_cutlass, "vendored cutlass"),
        (_other_tree, "tree vllm"),
        (_other_result, "result vllm"),
        (_patched_more, "patch vllm/0099-quiet.patch"),
        (_foreign_tool, "tool evil-1-py3-none-any.whl"),
    ],
)
def test_a_wheel_that_was_made_otherwise_says_so_against_the_recipe(
    context: Context, out: Path, change: Change, where: str
) -> None:
    path = shipped(out, change)
    assert findings(context, path) == []
    assert ("pin", where) in findings(context, path, recipe="aeon7")


def test_a_commits_own_tree_is_a_pin_too() -> None:
    """FlashInfer's commit has another tree than its sdist; both are pinned, and the result follows."""
    package = recipe().package("flashinfer-python")

    def change(value: Document) -> None:
        value["package"] |= {"tree": package.git_tree, "result_tree": "4" * 40, "sdist": "", "sdist_sha256": ""}

    value = record("flashinfer-python")
    change(value)
    pins = recipe_materials(recipe(), package, ROOT)
    lock = [pin for pin in pins if pin.kind == "lock"]
    assert list(_pinned([*materials(value), *lock], pins, package)) == []


def test_a_recipe_that_has_moved_on(context: Context, out: Path, tmp_path: Path) -> None:
    path = shipped(out)
    root = tmp_path / "root"
    for folder in ("recipes", "patches"):
        shutil.copytree(ROOT / folder, root / folder)
    assert findings(context, path, root, recipe="aeon7") == []
    text = (root / "recipes/aeon7.toml").read_text()
    (root / "recipes/aeon7.toml").write_text(f"# a comment\n{text}")
    assert findings(context, path, root, recipe="aeon7") == []
    (root / "recipes/aeon7.toml").write_text(text.replace("revision = 1", "revision = 2"))
    assert findings(context, path, root, recipe="aeon7") == [("recipe", "aeon7")]
    (root / "recipes/aeon7.toml").write_text(text)
    patch = root / "patches/vllm/0001-cuda-arch-list.patch"
    patch.write_text(patch.read_text().replace("Build compute", "Do build compute"))
    assert findings(context, path, root, recipe="aeon7") == [("pin", "patch vllm/0001-cuda-arch-list.patch")]


def test_another_recipe(context: Context, out: Path) -> None:
    assert findings(context, shipped(out), recipe="smoke") == [("recipe", "smoke")]


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff"])
def test_what_is_no_statement(context: Context, out: Path, data: bytes) -> None:
    path = shipped(out)
    path.with_name(path.name + SUFFIX).write_bytes(data)
    assert findings(context, path, recipe="aeon7") == [("provenance", f"{path}{SUFFIX}")]


def test_what_is_named_twice(context: Context, out: Path) -> None:
    path = shipped(out)
    edit(path, lambda said: _dependency(said, "lock").update(name="x", annotations={"kind": "commit"}))
    edit(path, lambda said: _dependency(said, "commit").update(name="x"))
    assert ("build-record", "commit x") in findings(context, path)


def test_a_wheel_without_its_statement(context: Context, out: Path) -> None:
    path = wheel(out)
    assert findings(context, path) == [("provenance", f"{path}{SUFFIX}")]


def test_a_wheel_of_another_tool_or_with_a_damaged_record(context: Context, out: Path) -> None:
    path = shipped(out)
    for data in (None, b"{}"):
        other = wheel(out, files={f"INFO/{RECORD_NAME}": data})
        assert other == path
        edit(path, lambda said: said["subject"][0].update(digest={"sha256": sha256_of(path)}))
        assert findings(context, path) == [("build-record", str(path))]


def test_what_is_no_wheel_is_an_error_in_words(context: Context, out: Path) -> None:
    path = shipped(out)
    path.write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(InspectError, match="no readable wheel"):
        findings(context, path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"identity": "me", "device": "12.1"}, "of which statement"),
        ({"issuer": "https://x"}, "of which statement"),
        ({"provenance": "x", "device": "12.1"}, "device= has no part"),
        ({"provenance": "x", "issuer": "https://x"}, "issuer= without identity="),
        ({"provenance": "/nowhere/x.whl"}, "there is no /nowhere/x.whl"),
    ],
)
def test_bad_usage_is_told(context: Context, options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run_verb([], options, context, ROOT)


def test_an_empty_folder_is_bad_usage(context: Context, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder of wheels"):
        ask(context, tmp_path)


def test_a_signature_that_is_asked_for_and_not_there(context: Context, out: Path) -> None:
    path = shipped(out)
    found = findings(
        context, path, identity="https://github.com/some/where/.github/workflows/build.yml@refs/heads/main"
    )
    assert found == [("signature", f"{path}.sigstore.json")]


def test_the_commands_of_the_document_run(context: Context, out: Path) -> None:
    path = shipped(out)
    text = (ROOT / "docs/supply-chain.md").read_text(encoding="utf-8")
    calls = re.findall(r"(?m)^    python -m builder verify (.*)$", text)
    places = {"out/aeon7/wheels": str(out), "WHEEL": str(path), "STATEMENT": f"{path}{SUFFIX}"}
    for call in calls:
        words = [re.sub(r"out/aeon7/wheels|WHEEL|STATEMENT", lambda m: places[m[0]], word) for word in call.split()]
        options = dict(word.split("=", 1) for word in words if not word.startswith("/"))
        assert run_verb([word for word in words if word.startswith("/")], options, context, ROOT)[2], call
    assert len(calls) == 2


def test_the_document_tells_every_rule() -> None:
    text = (ROOT / "docs/supply-chain.md").read_text(encoding="utf-8")
    code = (ROOT / "builder/verify/provenance.py").read_text(encoding="utf-8")
    rules = set(re.findall(r'Finding\(\s*"([\w-]+)"', code))
    assert rules == {"provenance", "subject", "build-record", "recipe", "pin", "signature", "builder"}
    assert [rule for rule in rules if f"`{rule}`" not in text] == []
