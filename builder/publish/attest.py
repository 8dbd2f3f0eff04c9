"""Signed attestations in the index (PEP 740): only those whose signer was checked here, and only with a whole address.

A static index checks nobody when files come in, and does not know where it is served from, while
PEP 740 asks for both. So this is a step of its own, for whoever has the bundles, knows who must
have signed them, and knows the address. The objects are made by the package index's own library.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

from builder.errors import PublishError, ToolchainError, UsageError
from builder.publish.entry import IndexFile, Project
from builder.publish.index import change_project, read_project, standing
from builder.publish.shelf import Shelf
from builder.publish.upkeep import Changed
from builder.supply.signature import SUFFIX, signed_payload

_WORKFLOW = re.compile(r"https://github\.com/(?P<repository>[^/]+/[^/]+)/\.github/workflows/(?P<workflow>[^@/]+)@.+")


@dataclass(frozen=True, slots=True)
class Signer:
    """Who must have signed: a workflow's identity, who vouches for it, and a trusted root of one's own, if any."""

    identity: str
    issuer: str
    trust: Path | None = None


@dataclass(frozen=True, slots=True)
class Attested:
    """A file of the index with its provenance object, and where that will lie."""

    project: str
    file: IndexFile
    data: bytes

    @property
    def key(self) -> str:
        """Beside the wheel, under its own digest."""
        return self.file.beside(f"{hashlib.sha256(self.data).hexdigest()}.provenance")


def attest(index: Path | str | Shelf, folders: Sequence[Path], url: str, signer: Signer) -> Changed:
    """Give each file of the index whose bundle lies in `folders` its PEP 740 provenance, served under `url`.

    Everything is checked before anything is written. Raises UsageError for an identity that is no
    GitHub workflow's and an address that is not whole, PublishError for a bundle that does not hold
    or is of no file of the index, ToolchainError when the libraries are not installed.
    """
    base, workflow = _whole(url), _workflow(signer.identity)
    shelf, names = standing(index)
    projects = [read_project(shelf, name) for name in names]
    bundles = [path for folder in folders for path in sorted(folder.glob(f"*.whl{SUFFIX}"))]
    if not bundles:
        raise UsageError(
            f"no *.whl{SUFFIX} in {', '.join(map(str, folders))}", expected="a folder with wheels' Sigstore bundles"
        )
    checked = [_checked(bundle, projects, signer, workflow) for bundle in bundles]
    for each in checked:
        shelf.put(each.key, each.data)
        _renew(shelf, set(each.file.signed_keys) - {each.key})
    pages: list[str] = []
    for name in sorted({each.project for each in checked}):
        urls = {each.file.filename: f"{base}/{quote(each.key)}" for each in checked if each.project == name}
        pages += change_project(shelf, name, functools.partial(_marked, urls=urls))
    return Changed(tuple(sorted(each.file.filename for each in checked)), tuple(pages))


def _renew(shelf: Shelf, keys: Iterable[str]) -> None:
    """Write again what is about to lose its link: gc counts its grace from the last writing."""
    for key in keys:
        kept = shelf.read(key)
        if kept is not None:
            shelf.put(key, kept.data)


def _whole(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"url={url} is no whole address",
            expected="the address that serves the index, such as https://wheels.example.org",
            remedy="PEP 740 asks for whole addresses; leave out simple/",
        )
    return url.rstrip("/")


def _workflow(identity: str) -> Mapping[str, str]:
    known = _WORKFLOW.fullmatch(identity)
    if known is None:
        raise UsageError(
            f"identity={identity} is no GitHub workflow",
            expected="https://github.com/OWNER/REPO/.github/workflows/FILE@REF",
            remedy="PEP 740 names publishers by kind, and this one is the kind that is known here",
        )
    return known.groupdict()


def _checked(bundle: Path, projects: Sequence[Project], signer: Signer, workflow: Mapping[str, str]) -> Attested:
    name = bundle.name.removesuffix(SUFFIX)
    found = [(project.name, file) for project in projects for file in project.files if file.filename == name]
    if not found:
        raise _refusal(bundle, f"the index has no {name}", "publish the wheel first")
    project, file = found[0]
    try:
        payload = signed_payload(bundle, signer.identity, signer.issuer, signer.trust)
    except ValueError as error:
        raise _refusal(bundle, f"it does not hold: {error}", "take it from the run that built the wheel") from error
    if payload.get("subject") != [{"name": name, "digest": {"sha256": file.sha256}}]:
        raise _refusal(bundle, "it is of other bytes", f"take the bundle of the wheel with sha256 {file.sha256}")
    return Attested(project, file, _provenance(bundle.read_bytes(), workflow))


def _provenance(bundle: bytes, workflow: Mapping[str, str]) -> bytes:
    try:
        from pypi_attestations import Attestation, AttestationBundle, GitHubPublisher, Provenance
        from sigstore.models import Bundle
    except ImportError as error:
        raise ToolchainError(
            "attestations cannot be made: pypi-attestations is not installed",
            where="this Python",
            expected="the package index's own library, which only attest needs",
            remedy="python -m pip install --require-hashes --no-deps -r locks/sign.txt, and run again",
        ) from error
    attestation = Attestation.from_bundle(Bundle.from_json(bundle))
    publisher = GitHubPublisher(repository=workflow["repository"], workflow=workflow["workflow"])
    made = Provenance(attestation_bundles=[AttestationBundle(publisher=publisher, attestations=[attestation])])
    return made.model_dump_json().encode()


def _marked(project: Project, *, urls: Mapping[str, str]) -> Project:
    files = (replace(file, provenance=urls.get(file.filename, file.provenance)) for file in project.files)
    return replace(project, files=tuple(files))


def _refusal(bundle: Path, why: str, remedy: str) -> PublishError:
    return PublishError(
        f"{bundle.name} cannot be served: {why}",
        where=str(bundle),
        expected="a bundle of a wheel in the index, signed by the one that identity= names",
        remedy=remedy,
    )
