"""Who signed a statement: held by Sigstore's own library against a real, private Sigstore."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.context import Context
from builder.errors import ToolchainError, UsageError
from builder.publish import statements
from builder.supply import LOCAL, SUFFIX, Run
from builder.verify import run_verb
from tests.publish.wheels import verified
from tests.supply.private_sigstore import ISSUER, WHO, Sigstore
from tests.supply.records import ROOT, recipe
from tests.supply.wheels import wheel

Document = dict[str, Any]


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


@pytest.fixture
def shipped(tmp_path: Path, sigstore: Sigstore) -> Path:
    """A wheel, its statement, the bundle over that, and what the reader trusts."""
    path = wheel(tmp_path / "out")
    data = statements([verified(path)], recipe(), ROOT, Run(builder=WHO))[path.name]
    path.with_name(path.name + SUFFIX).write_bytes(data)
    bundle(path).write_text(json.dumps(sigstore.bundle(data)))
    (tmp_path / "trusted_root.json").write_bytes(sigstore.root())
    return path


def bundle(path: Path) -> Path:
    return path.with_name(f"{path.name}.sigstore.json")


def ask(context: Context, path: Path, **options: str) -> tuple[list[str], Document]:
    """What is wrong with the signature, and the document of the wheel."""
    chosen = {"provenance": str(path), "recipe": "aeon7", "identity": WHO}
    chosen |= {"trust": str(path.parents[1] / "trusted_root.json"), **options}
    document, _, good = run_verb([], chosen, context, ROOT)
    (file,) = document["files"]
    assert good is (not file["findings"])
    assert all(each["rule"] == "signature" for each in file["findings"])
    return [each["message"] for each in file["findings"]], file


def test_what_the_named_workflow_signed_holds(context: Context, shipped: Path) -> None:
    faults, file = ask(context, shipped)
    assert faults == []
    assert file["signed_by"] == WHO
    assert ask(context, shipped, issuer=ISSUER)[0] == []


PERSON, THEIRS = "someone@example.invalid", "https://accounts.invalid"


@pytest.mark.parametrize(
    ("builder", "who", "issuer", "good"),
    [
        (WHO, WHO, ISSUER, True),
        (WHO.replace("build.yml", "other.yml"), WHO, ISSUER, False),
        (LOCAL, WHO, ISSUER, False),  # a workflow that signs what it has not built
        (LOCAL, PERSON, THEIRS, True),  # somebody who vouches for a machine
        (WHO, PERSON, THEIRS, False),
    ],
)
def test_a_builder_that_is_not_the_signer(
    context: Context, shipped: Path, sigstore: Sigstore, builder: str, who: str, issuer: str, good: bool
) -> None:
    data = statements([verified(shipped)], recipe(), ROOT, Run(builder=builder))[shipped.name]
    shipped.with_name(shipped.name + SUFFIX).write_bytes(data)
    bundle(shipped).write_text(json.dumps(sigstore.bundle(data, who, issuer)))
    trust = str(shipped.parents[1] / "trusted_root.json")
    options = {"provenance": str(shipped), "identity": who, "issuer": issuer, "trust": trust}
    document, text, _ = run_verb([], options, context, ROOT)
    assert [each["rule"] for each in document["files"][0]["findings"]] == ([] if good else ["builder"])
    assert document["files"][0]["signed_by"] == who
    assert f"signed by {who}" in text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"identity": WHO.replace("some", "other")}, "do not match https://github.com/other/where"),
        ({"identity": WHO.replace("refs/heads/main", "refs/heads/evil")}, "do not match"),
        ({"issuer": "https://accounts.invalid"}, "OIDCIssuer does not match"),
    ],
)
def test_another_signer_than_the_named_one(context: Context, shipped: Path, options: dict[str, str], says: str) -> None:
    (fault,), file = ask(context, shipped, **options)
    assert says in fault
    assert file["signed_by"] == ""
    trust = {"trust": str(shipped.parents[1] / "trusted_root.json")}
    text = run_verb([], {"provenance": str(shipped), "identity": WHO, **trust, **options}, context, ROOT)[1]
    assert "its signature does not hold" in text
    assert "signed by" not in text.split("findings")[0].split("  - ")[0]


def test_another_sigstore_than_the_trusted_one(context: Context, shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "trusted_root.json").write_bytes(Sigstore().root())
    (fault,), _ = ask(context, shipped)
    assert "does not hold" in fault


def test_the_public_sigstore_does_not_know_a_private_one(context: Context, shipped: Path) -> None:
    """Offline: the public root is the one that the library carries."""
    document, _, good = run_verb([], {"provenance": str(shipped), "identity": WHO}, context, ROOT)
    assert not good
    assert [each["rule"] for each in document["files"][0]["findings"]] == ["signature"]


def _payload(value: Document) -> None:
    value["dsseEnvelope"]["payload"] = value["dsseEnvelope"]["payload"].replace("A", "B", 1)


def _entry(value: Document) -> Document:
    entry: Document = value["verificationMaterial"]["tlogEntries"][0]
    return entry


def _promise(value: Document) -> None:
    _entry(value)["inclusionPromise"]["signedEntryTimestamp"] = value["dsseEnvelope"]["signatures"][0]["sig"]


def _proof(value: Document) -> None:
    _entry(value)["inclusionProof"]["rootHash"] = "A" * 43 + "="


def _late(value: Document) -> None:
    _entry(value)["integratedTime"] = str(int(_entry(value)["integratedTime"]) + 86400)


def _no_entry(value: Document) -> None:
    value["verificationMaterial"]["tlogEntries"] = []


def _no_certificate(value: Document) -> None:
    del value["verificationMaterial"]["certificate"]


@pytest.mark.parametrize("change", [_payload, _promise, _proof, _late, _no_entry, _no_certificate])
def test_a_bundle_of_which_any_part_is_wrong(
    context: Context, shipped: Path, change: Callable[[Document], None]
) -> None:
    value = json.loads(bundle(shipped).read_bytes())
    change(value)
    bundle(shipped).write_text(json.dumps(value))
    (fault,), _ = ask(context, shipped)
    assert fault.startswith("it does not hold: ")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff\xfe", b'{"mediaType": "x"}'])
def test_what_is_no_bundle(context: Context, shipped: Path, data: bytes) -> None:
    bundle(shipped).write_bytes(data)
    (fault,), _ = ask(context, shipped)
    assert fault.startswith("it does not hold: ")


def test_a_statement_that_was_changed_after_it_was_signed(context: Context, shipped: Path, sigstore: Sigstore) -> None:
    said = json.loads(shipped.with_name(shipped.name + SUFFIX).read_bytes())
    said["predicate"]["runDetails"]["builder"]["id"] = "somebody else"
    bundle(shipped).write_text(json.dumps(sigstore.bundle(json.dumps(said).encode())))
    assert ask(context, shipped)[0] == ["what was signed and the statement differ in predicate"]
    said["subject"][0]["digest"]["sha256"] = "0" * 64
    bundle(shipped).write_text(json.dumps(sigstore.bundle(json.dumps(said).encode())))
    assert len(ask(context, shipped)[0]) == 2


@pytest.mark.parametrize("data", [None, b"", b"{}"])
def test_a_trust_that_is_no_trusted_root_is_bad_usage(
    context: Context, shipped: Path, tmp_path: Path, data: bytes | None
) -> None:
    place = tmp_path / "trusted_root.json"
    place.unlink()
    if data is not None:
        place.write_bytes(data)
    with pytest.raises(UsageError, match="is no trusted root"):
        ask(context, shipped)


def test_without_the_library_the_question_is_refused_not_answered(
    context: Context, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sigstore.verify.policy", None)
    with pytest.raises(ToolchainError, match="sigstore is not installed"):
        ask(context, shipped)
