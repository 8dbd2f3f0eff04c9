"""The provenance statement: in-toto and SLSA in shape, without a clock, and read back as written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from builder.supply import Run, lock_material, materials, read_statement, statement
from tests.supply.records import ROOT, recipe, record

NAME = "vllm-0.20.0+aeon7.1.p1a2b3c4d-cp38-abi3-manylinux_2_35_aarch64.whl"
DIGEST = "d" * 64
GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "some/where",
    "GITHUB_WORKFLOW_REF": "some/where/.github/workflows/build.yml@refs/heads/main",
    "GITHUB_RUN_ID": "42",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_SHA": "a" * 40,
}


def made(run: Run | None = None, *, externals: bool = False) -> bytes:
    return statement(NAME, DIGEST, record(externals=externals), lock_material(recipe(), ROOT), run or Run())


def test_its_shape_is_that_of_the_specifications() -> None:
    said = json.loads(made())
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert said["subject"] == [{"name": NAME, "digest": {"sha256": DIGEST}}]
    assert said["predicate"].keys() == {"buildDefinition", "runDetails"}
    definition = said["predicate"]["buildDefinition"]
    assert definition["buildType"].startswith("urn:")
    assert definition["externalParameters"]["recipe"]["name"] == "aeon7"
    for each in definition["resolvedDependencies"]:
        assert each.keys() <= {"name", "uri", "digest", "annotations"}
        assert "digest" in each or "uri" in each


def test_sigstores_own_model_takes_the_predicate() -> None:
    from sigstore.dsse._predicate import SLSAPredicateV1_0

    for run in (Run(), Run.here(GITHUB)):
        for externals in (False, True):
            SLSAPredicateV1_0.model_validate(json.loads(made(run, externals=externals))["predicate"])


@pytest.mark.parametrize("externals", [False, True])
def test_it_names_everything_and_is_read_back_as_written(externals: bool) -> None:
    said = read_statement(made(externals=externals))
    wanted = (*materials(record(externals=externals)), lock_material(recipe(), ROOT))
    assert said.materials == wanted
    assert (said.wheel, said.sha256, said.recipe, said.package) == (NAME, DIGEST, "aeon7", "vllm")
    kinds = {each.kind for each in said.materials}
    assert {"sdist", "commit", "tree", "result", "patch", "vendored", "tool", "compiler", "lock"} <= kinds
    assert ("external" in kinds) is externals
    assert ("prebuilt" in kinds) is not externals


def test_equal_wheels_get_equal_statements() -> None:
    assert made() == made()
    assert b"startedOn" not in made()


def test_only_who_ran_it_differs_between_machines() -> None:
    here, there = json.loads(made()), json.loads(made(Run.here(GITHUB)))
    assert here["predicate"]["runDetails"] != there["predicate"]["runDetails"]
    for each in (here, there):
        del each["predicate"]["runDetails"]
    assert here == there


def test_on_github_the_builder_is_the_workflow() -> None:
    details = json.loads(made(Run.here(GITHUB)))["predicate"]["runDetails"]
    assert details["builder"]["id"] == "https://github.com/some/where/.github/workflows/build.yml@refs/heads/main"
    assert details["metadata"]["invocationId"] == "https://github.com/some/where/actions/runs/42/attempts/2"
    (source,) = details["builder"]["builderDependencies"]
    assert source == {"uri": "git+https://github.com/some/where@refs/heads/main", "digest": {"gitCommit": "a" * 40}}


@pytest.mark.parametrize("missing", ["GITHUB_ACTIONS", "GITHUB_WORKFLOW_REF"])
def test_elsewhere_nobody_is_claimed(missing: str) -> None:
    assert Run.here({name: value for name, value in GITHUB.items() if name != missing}) == Run()
    assert "local" in Run().builder


def _without(*path: str) -> bytes:
    said: Any = json.loads(made())
    place = said
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return json.dumps(said).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"_type": "https://in-toto.io/Statement/v0.1"}',
        _without("subject"),
        _without("predicate", "buildDefinition", "resolvedDependencies"),
        _without("predicate", "runDetails"),
        made().replace(b"urn:spark-wheels:build:v1", b"urn:other:v1"),
        made().replace(b'"subject": [', b'"subject": [{}, '),
    ],
    ids=["empty", "list", "null", "bytes", "old", "subject", "dependencies", "run", "foreign", "two"],
)
def test_what_is_no_statement_of_ours_is_said(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_statement(data)


def test_a_record_is_not_changed_by_it() -> None:
    value = record()
    statement(NAME, DIGEST, value, lock_material(recipe(), ROOT), replace(Run(), invocation="x"))
    assert value == record()
