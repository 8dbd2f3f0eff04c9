"""Where a wheel comes from: an in-toto Statement v1 with a SLSA provenance v1 predicate, as a file beside the wheel.

Written as plain JSON, because it is one fixed shape, and the libraries of the field
(in-toto-attestation, sigstore) bring protobuf for it; signing is theirs and happens in CI. It holds
no clock: a wheel may come from the store, made long before it is published, and equal wheels get
equal statements. Only who ran it (`Run`) differs. Trees are annotations, not digests: in-toto has `gitTree`,
and Sigstore's tools refuse what has it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from builder import __version__
from builder.supply.materials import Material, materials

SUFFIX = ".provenance.json"
"""What a statement's file name adds to its wheel's."""

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:spark-wheels:build:v1"
"""The build type: `python -m builder build recipe=NAME`, described in docs/supply-chain.md."""

LOCAL = "urn:spark-wheels:builder:local"
"""A machine that nobody vouches for."""

_NOTED = ("gitTree",)


@dataclass(frozen=True, slots=True)
class Run:
    """Who ran the build: the builder's id, the invocation, and the checkout's repository and commit, if known."""

    builder: str = LOCAL
    invocation: str = ""
    repository: str = ""
    commit: str = ""

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Run:
        """GitHub's own names of the workflow and the run when on GitHub; a local machine elsewhere."""
        if environ.get("GITHUB_ACTIONS") != "true" or "GITHUB_WORKFLOW_REF" not in environ:
            return cls()
        server = environ.get("GITHUB_SERVER_URL", "https://github.com")
        repository = f"{server}/{environ['GITHUB_REPOSITORY']}"
        return cls(
            builder=f"{server}/{environ['GITHUB_WORKFLOW_REF']}",
            invocation=f"{repository}/actions/runs/{environ['GITHUB_RUN_ID']}"
            f"/attempts/{environ.get('GITHUB_RUN_ATTEMPT', '1')}",
            repository=f"git+{repository}@{environ.get('GITHUB_REF', '')}",
            commit=environ.get("GITHUB_SHA", ""),
        )


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, read: its one subject, what was asked for, what it was made from, and by whom.

    `parameters` are what `parameters` makes of a build record: all that was asked, and how it was built.
    """

    wheel: str
    sha256: str
    recipe: str
    digest: str
    package: str
    materials: tuple[Material, ...]
    builder: str
    parameters: Mapping[str, Any]


def parameters(record: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for and with what settings, as the statement of that record says it."""
    return {
        "externalParameters": {k: record[k] for k in ("recipe", "target")} | {"package": record["package"]["name"]},
        "internalParameters": {"toolchain": {k: v for k, v in record["toolchain"].items() if k != "files"}},
    }


def statement(wheel: str, sha256: str, record: Mapping[str, Any], lock: Material, run: Run) -> bytes:
    """The statement for a wheel of that name and digest: equal wheels and runs, equal bytes."""
    document = {
        "_type": STATEMENT,
        "subject": [{"name": wheel, "digest": {"sha256": sha256}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                **parameters(record),
                "resolvedDependencies": [_resource(each) for each in (*materials(record), lock)],
            },
            "runDetails": _run(run),
        },
    }
    return f"{json.dumps(document, sort_keys=True, indent=1)}\n".encode()


def read_statement(data: bytes) -> Statement:
    """Read a statement; raises ValueError in words when it is not one of ours."""
    try:
        document = json.loads(data)
        _expect(document["_type"], STATEMENT)
        _expect(document["predicateType"], PREDICATE)
        definition, details = document["predicate"]["buildDefinition"], document["predicate"]["runDetails"]
        _expect(definition["buildType"], BUILD)
        (subject,) = document["subject"]
        asked = definition["externalParameters"]
        return Statement(
            wheel=str(subject["name"]),
            sha256=str(subject["digest"]["sha256"]),
            recipe=str(asked["recipe"]["name"]),
            digest=str(asked["recipe"]["digest"]),
            package=str(asked["package"]),
            materials=tuple(_materials(definition["resolvedDependencies"])),
            builder=str(details["builder"]["id"]),
            parameters={key: definition.get(key) for key in ("externalParameters", "internalParameters")},
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it lacks or misplaces something ({type(error).__name__}: {error})") from error


def _expect(found: object, wanted: str) -> None:
    if found != wanted:
        raise ValueError(f"it is {found!r}, not {wanted}")


def _resource(material: Material) -> dict[str, Any]:
    found: dict[str, Any] = {"name": material.name, "annotations": {"kind": material.kind}}
    if material.version:
        found["annotations"]["version"] = material.version
    if material.uri:
        found["uri"] = material.uri
    trees = {name: value for name, value in material.digests if name in _NOTED}
    found["annotations"] |= trees
    if len(trees) < len(material.digests):
        found["digest"] = {name: value for name, value in material.digests if name not in trees}
    return found


def _materials(resources: Iterable[Mapping[str, Any]]) -> Iterable[Material]:
    for each in resources:
        notes = each["annotations"]
        digests = {**each.get("digest", {}), **{name: notes[name] for name in _NOTED if name in notes}}
        pairs = tuple((str(name), str(value)) for name, value in sorted(digests.items()))
        kind, name = str(notes["kind"]), str(each["name"])
        yield Material(kind, name, str(notes.get("version", "")), str(each.get("uri", "")), pairs)


def _run(run: Run) -> dict[str, Any]:
    builder: dict[str, Any] = {"id": run.builder, "version": {"spark-wheels": __version__}}
    if run.commit:
        builder["builderDependencies"] = [{"uri": run.repository, "digest": {"gitCommit": run.commit}}]
    return (
        {"builder": builder, "metadata": {"invocationId": run.invocation}} if run.invocation else {"builder": builder}
    )
