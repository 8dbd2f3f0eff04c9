"""Who signed a statement: a Sigstore bundle beside the wheel, checked offline by Sigstore's own library.

The library is no dependency of the builder, for only this question needs it. Its trust root is the
one that it carries, so that the check needs no network; a root that is newer comes with a newer
library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from builder.errors import ToolchainError

SUFFIX = ".sigstore.json"
"""What a bundle's file name adds to its wheel's, as the sigstore program names it."""

GITHUB = "https://token.actions.githubusercontent.com"
"""Who vouches for the identity of a workflow."""


def signed_payload(bundle: Path, identity: str, issuer: str) -> Mapping[str, Any]:
    """The statement that the bundle's signature covers, signed by `identity` as `issuer` knows it.

    Raises ValueError in words when the bundle is damaged, or its signature, certificate, log entry
    or identity do not hold; ToolchainError when the library is not installed.
    """
    try:
        from sigstore.errors import Error
        from sigstore.models import Bundle, InvalidBundle
        from sigstore.verify import Verifier
        from sigstore.verify.policy import Identity
    except ImportError as error:
        raise ToolchainError(
            "the signature cannot be checked: sigstore is not installed",
            where="this Python",
            expected="Sigstore's library, which only identity= needs",
            remedy="python -m pip install --require-hashes --no-deps -r locks/sign.txt, and run again",
        ) from error
    try:
        read = Bundle.from_json(bundle.read_bytes())
        kind, payload = Verifier.production(offline=True).verify_dsse(read, Identity(identity=identity, issuer=issuer))
    except (Error, InvalidBundle, ValueError) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    if kind != "application/vnd.in-toto+json":
        raise ValueError(f"it signs {kind}, not an in-toto statement")
    statement: Mapping[str, Any] = json.loads(payload)
    return statement
