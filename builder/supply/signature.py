"""Who signed a statement: a Sigstore bundle beside the wheel, checked offline by Sigstore's own library.

The library is no dependency of the builder, for only this question needs it. Its trust root is the
one that it carries, so that the check needs no network; a root that is newer comes with a newer
library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    from sigstore.verify import Verifier

SUFFIX = ".sigstore.json"
"""What a bundle's file name adds to its wheel's, as the sigstore program names it."""

GITHUB = "https://token.actions.githubusercontent.com"
"""Who vouches for the identity of a workflow."""


def signed_payload(bundle: Path, identity: str, issuer: str, trust: Path | None = None) -> Mapping[str, Any]:
    """The statement that the bundle's signature covers, signed by `identity` as `issuer` knows it.

    `trust` is a trusted_root.json of a Sigstore of one's own; without it, the public one's that the
    library carries. Raises ValueError in words when the bundle is damaged, or its signature,
    certificate, log entry or identity do not hold; UsageError for a `trust` that is no trusted root;
    ToolchainError when the library is not installed.
    """
    try:
        from cryptography.x509 import ExtensionNotFound
        from sigstore.errors import Error
        from sigstore.models import Bundle
        from sigstore.verify.policy import Identity
    except ImportError as error:
        raise ToolchainError(
            "the signature cannot be checked: sigstore is not installed",
            where="this Python",
            expected="Sigstore's library, which only identity= needs",
            remedy="python -m pip install --require-hashes --no-deps -r locks/sign.txt, and run again",
        ) from error
    verifier = _verifier(trust)
    try:
        read = Bundle.from_json(bundle.read_bytes())
        kind, payload = verifier.verify_dsse(read, Identity(identity=identity, issuer=issuer))
    except (Error, ExtensionNotFound, ValueError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if kind != "application/vnd.in-toto+json":
        raise ValueError(f"it signs {kind}, not an in-toto statement")
    statement: Mapping[str, Any] = json.loads(payload)
    return statement


def _verifier(trust: Path | None) -> Verifier:
    from sigstore.errors import Error
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    if trust is None:
        return Verifier.production(offline=True)
    try:
        return Verifier(trusted_root=TrustedRoot.from_file(str(trust)))
    except (OSError, Error, ValueError) as error:
        raise UsageError(
            f"{trust} is no trusted root: {str(error).splitlines()[0]}",
            expected="trust=PATH of a trusted_root.json, as your Sigstore gives it out",
            remedy="leave out trust= for the public Sigstore",
        ) from error
