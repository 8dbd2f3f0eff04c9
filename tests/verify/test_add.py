"""Wheels that were built elsewhere, into an index: verified here, with papers that hold, and together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builder import add
from builder.add import add_wheels
from builder.context import Context
from builder.errors import NegativeVerdict, PublishError, UsageError
from builder.finding import Verdict
from builder.model import Recipe, VerifiedWheel, Wheel
from builder.publish import publish, statements
from builder.recipe import local_version
from builder.supply import SUFFIX, Run
from tests.publish.reader import listed
from tests.publish.wheels import build_wheel, verified
from tests.supply.private_sigstore import WHO, Sigstore
from tests.supply.records import ROOT
from tests.supply.records import recipe as aeon7
from tests.supply.wheels import wheel as make_vllm
from tests.verify.conftest import MakeWheel, sample


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def vllm(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel of aeon7 with its statement; the index has the others. What verify finds in it is tested elsewhere."""
    for name in ("flashinfer-python", "flashinfer-jit-cache"):
        version = local_version(aeon7(), aeon7().package(name))
        other = build_wheel(tmp_path / "others", name, version, "py3-none-any", payload=b"", requires_python=">=3.8")
        publish([verified(other)], index)
    path = make_vllm(tmp_path / "out")
    paper(path).write_bytes(statements([verified(path)], aeon7(), ROOT, Run(builder=WHO))[path.name])

    def good(wheel: Wheel, *_: object) -> VerifiedWheel:
        return VerifiedWheel(wheel, Verdict((), {}))

    monkeypatch.setattr(add, "verify_wheel", good)
    return path


def paper(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def test_a_good_wheel_is_verified_and_offered(
    make_wheel: MakeWheel, recipe: Recipe, context: Context, index: Path
) -> None:
    path = make_wheel()
    assert add_wheels([path.parent], [recipe], {}, context, str(index)).added == (path.name,)
    assert set(listed(index)) == {path.name}


def test_a_wheel_that_is_not_what_the_recipe_asks_stays_out(
    make_wheel: MakeWheel, recipe: Recipe, context: Context, index: Path
) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_sm_75.so")})
    with pytest.raises(NegativeVerdict, match=r"no code that runs on 12\.1"):
        add_wheels([path], [recipe], {}, context, str(index))
    assert not index.exists()


def test_one_platform_of_two_stays_out(make_wheel: MakeWheel, recipe: Recipe, context: Context, index: Path) -> None:
    both = replace(recipe, platforms=("linux-x86_64", "linux-aarch64"))
    with pytest.raises(PublishError, match="promises 1 wheel more") as caught:
        add_wheels([make_wheel()], [both], {}, context, str(index))
    assert caught.value.where == "demo 1.0 for linux-aarch64"
    assert not index.exists()


def test_a_recipes_other_wheels_must_be_there_in_its_versions(vllm: Path, context: Context, tmp_path: Path) -> None:
    version = local_version(aeon7(), aeon7().package("flashinfer-python"))
    with pytest.raises(PublishError, match="promises 2 wheels more") as caught:
        add_wheels([vllm.parent], [aeon7()], {}, context, str(tmp_path / "fresh"))
    assert f"flashinfer-python {version} for linux-aarch64" in caught.value.where


def test_the_statement_beside_a_wheel_comes_with_it(vllm: Path, context: Context, index: Path) -> None:
    add_wheels([vllm.parent], [aeon7()], {}, context, str(index))
    (file,) = json.loads((index / "simple/vllm/index.json").read_bytes())["files"]
    (kept,) = index.rglob("*.provenance.json")
    assert kept.name.startswith(file["_statement"]["sha256"])
    assert kept.read_bytes() == paper(vllm).read_bytes()


@pytest.mark.parametrize("damage", ["recipe", "subject", "none"])
def test_a_statement_that_does_not_hold_keeps_the_wheel_out(
    vllm: Path, context: Context, index: Path, damage: str
) -> None:
    said = json.loads(paper(vllm).read_bytes())
    if damage == "recipe":
        said["predicate"]["buildDefinition"]["externalParameters"]["recipe"]["digest"] = "0" * 64
    elif damage == "subject":
        said["subject"][0]["digest"]["sha256"] = "0" * 64
    paper(vllm).write_text("{}" if damage == "none" else json.dumps(said))
    with pytest.raises(NegativeVerdict, match="does not hold"):
        add_wheels([vllm.parent], [aeon7()], {}, context, str(index))
    assert len(listed(index)) == 2


@pytest.mark.parametrize("lacks", ["statement", "bundle"])
def test_with_an_identity_everything_must_be_signed(vllm: Path, context: Context, index: Path, lacks: str) -> None:
    if lacks == "statement":
        paper(vllm).unlink()
    says = "there is no statement" if lacks == "statement" else "there is no Sigstore bundle"
    with pytest.raises(NegativeVerdict, match=says):
        add_wheels([vllm.parent], [aeon7()], {"identity": WHO}, context, str(index))
    assert len(listed(index)) == 2


def test_a_wheel_of_no_recipe_and_an_empty_folder_are_told(
    make_wheel: MakeWheel, context: Context, tmp_path: Path, index: Path
) -> None:
    with pytest.raises(UsageError, match="is of no package of aeon7"):
        add_wheels([make_wheel()], [aeon7()], {}, context, str(index))
    (tmp_path / "empty").mkdir()
    for place in ("empty", "missing", "missing.whl"):
        with pytest.raises(UsageError, match="no wheels in"):
            add_wheels([tmp_path / place], [aeon7()], {}, context, str(index))


def test_what_the_named_workflow_signed_is_offered(vllm: Path, context: Context, index: Path) -> None:
    sigstore = Sigstore()
    vllm.with_name(f"{vllm.name}.sigstore.json").write_text(json.dumps(sigstore.bundle(paper(vllm).read_bytes())))
    root = vllm.parents[1] / "trusted_root.json"
    root.write_bytes(sigstore.root())
    done = add_wheels([vllm.parent], [aeon7()], {"identity": WHO, "trust": str(root)}, context, str(index))
    assert done.added == (vllm.name,)
