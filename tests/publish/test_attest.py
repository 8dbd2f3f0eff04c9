"""Attestations in the index (PEP 740): of checked signers only, for the very bytes, at a whole address."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from pypi_attestations import GitHubPublisher, Provenance
from sigstore.models import TrustedRoot
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity

from builder.errors import PublishError, ToolchainError, UsageError
from builder.publish import gc, publish, refresh, run_verb, statements
from tests.publish.reader import links_of, snapshot
from tests.publish.wheels import verified
from tests.supply.private_sigstore import ISSUER, WHO, Sigstore
from tests.supply.records import ROOT, recipe
from tests.supply.wheels import wheel

URL = "https://wheels.invalid/team"


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


@pytest.fixture
def shipped(tmp_path: Path, sigstore: Sigstore) -> Path:
    """A wheel in the index tmp_path/index, with its bundle beside it in tmp_path/out."""
    path = wheel(tmp_path / "out")
    stated = statements([verified(path)], recipe(), ROOT)
    publish([verified(path)], tmp_path / "index", statements=stated)
    bundle(path).write_text(json.dumps(sigstore.bundle(stated[path.name])))
    (tmp_path / "trusted_root.json").write_bytes(sigstore.root())
    return path


def bundle(path: Path) -> Path:
    return path.with_name(f"{path.name}.sigstore.json")


def attest(path: Path, **options: str) -> tuple[str, ...]:
    """The files that are attested now."""
    root = path.parents[1]
    chosen = {"identity": WHO, "url": URL, "trust": str(root / "trusted_root.json"), **options}
    files: tuple[str, ...] = run_verb(["attest", str(path.parent)], chosen, str(root / "index"))[0]["files"]
    return files


def test_a_client_finds_the_attestation_and_can_check_it(shipped: Path, tmp_path: Path, sigstore: Sigstore) -> None:
    assert attest(shipped) == (shipped.name,)
    (file,) = json.loads((tmp_path / "index/simple/vllm/index.json").read_bytes())["files"]
    ((_, attributes, _),) = links_of((tmp_path / "index/simple/vllm/index.html").read_bytes())
    assert file["provenance"] == attributes["data-provenance"]
    assert file["provenance"].startswith(f"{URL}/files/")
    data = (tmp_path / "index" / unquote(file["provenance"].removeprefix(f"{URL}/"))).read_bytes()
    (signed,) = Provenance.model_validate_json(data).attestation_bundles
    assert signed.publisher == GitHubPublisher(repository="some/where", workflow="build.yml")
    root = tmp_path / "root.json"
    root.write_bytes(sigstore.root())
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(root)))
    _, payload = verifier.verify_dsse(signed.attestations[0].to_bundle(), Identity(identity=WHO, issuer=ISSUER))
    assert json.loads(payload)["subject"][0]["digest"]["sha256"] == file["hashes"]["sha256"]


def test_once_more_changes_nothing_and_refresh_and_gc_keep_it(shipped: Path, tmp_path: Path) -> None:
    attest(shipped)
    before = {name: data for name, (data, _) in snapshot(tmp_path / "index").items()}
    attest(shipped)
    refresh(tmp_path / "index")
    gc(tmp_path / "index", keep=1, now=datetime.now(UTC) + timedelta(days=9))
    publish([verified(shipped)], tmp_path / "index", statements=statements([verified(shipped)], recipe(), ROOT))
    assert {name: data for name, (data, _) in snapshot(tmp_path / "index").items()} == before


def test_a_second_bundle_leaves_the_first_to_readers_of_an_old_page(
    shipped: Path, tmp_path: Path, sigstore: Sigstore
) -> None:
    attest(shipped)
    (old,) = (tmp_path / "index").rglob("*.provenance")
    long_ago = (datetime.now(UTC) - timedelta(days=30)).timestamp()
    for path in old.parent.iterdir():
        os.utime(path, (long_ago, long_ago))
    bundle(shipped).write_text(
        json.dumps(sigstore.bundle(statements([verified(shipped)], recipe(), ROOT)[shipped.name]))
    )
    attest(shipped)
    assert len(list((tmp_path / "index").rglob("*.provenance"))) == 2
    assert gc(tmp_path / "index", keep=1).deleted == ()
    (gone,) = gc(tmp_path / "index", keep=1, now=datetime.now(UTC) + timedelta(days=2)).deleted
    assert gone == old.relative_to(tmp_path / "index").as_posix()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"identity": WHO.replace("some", "other")}, "it does not hold"),
        ({"issuer": "https://accounts.invalid"}, "it does not hold"),
    ],
)
def test_a_signer_that_is_not_the_named_one_is_refused(
    shipped: Path, tmp_path: Path, options: dict[str, str], says: str
) -> None:
    before = snapshot(tmp_path / "index")
    with pytest.raises(PublishError, match=says):
        attest(shipped, **options)
    assert snapshot(tmp_path / "index") == before


def test_a_bundle_of_other_bytes_or_of_no_file_is_refused_and_none_is_written(
    shipped: Path, tmp_path: Path, sigstore: Sigstore
) -> None:
    before, good = snapshot(tmp_path / "index"), bundle(shipped).read_text()
    stranger = shipped.with_name("zz-1.0-py3-none-any.whl")
    bundle(stranger).write_text(good)
    with pytest.raises(PublishError, match="the index has no zz"):
        attest(shipped)
    bundle(stranger).unlink()
    other = {"subject": [{"name": shipped.name, "digest": {"sha256": "0" * 64}}]}
    bundle(shipped).write_text(json.dumps(sigstore.bundle(json.dumps(other).encode())))
    with pytest.raises(PublishError, match="it is of other bytes"):
        attest(shipped)
    assert snapshot(tmp_path / "index") == before


@pytest.mark.parametrize(
    ("words", "options", "says"),
    [
        (["attest"], {"identity": WHO, "url": URL}, "with no words"),
        (["attest", "x"], {"url": URL}, "attest without identity="),
        (["attest", "x"], {"identity": WHO}, "attest without url="),
        (["attest", "x"], {"identity": WHO, "url": "/simple"}, "no whole address"),
        (["attest", "x"], {"identity": WHO, "url": "https://h/?a"}, "no whole address"),
        (["attest", "x"], {"identity": "me@example.invalid", "url": URL}, "no GitHub workflow"),
        (["attest", "x"], {"identity": WHO, "url": URL}, "no .*sigstore.json in x"),
        (["yank", "x"], {"identity": WHO}, "does not take identity="),
    ],
)
def test_bad_usage_is_told(shipped: Path, tmp_path: Path, words: list[str], options: dict[str, str], says: str) -> None:
    assert shipped.is_file()
    with pytest.raises(UsageError, match=says):
        run_verb(words, options, str(tmp_path / "index"))


def test_without_the_library_nothing_is_served(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(tmp_path / "index")
    monkeypatch.setitem(sys.modules, "pypi_attestations", None)
    with pytest.raises(ToolchainError, match="pypi-attestations is not installed"):
        attest(shipped)
    assert snapshot(tmp_path / "index") == before
