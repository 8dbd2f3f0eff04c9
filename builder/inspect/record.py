"""RECORD of a wheel: its lines, and the digests in them."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter


def record_lines(text: str) -> dict[str, tuple[str, str]]:
    """RECORD's lines: path → (`sha256=…` or empty, size or empty). Raises ValueError for what is none."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except csv.Error as error:  # which is no ValueError, as those of all other readers are
        raise ValueError(str(error)) from error
    found = {row[0]: (row[1] if len(row) > 1 else "", row[2] if len(row) > 2 else "") for row in rows}
    if len(found) < len(rows):
        twice = next(name for name, count in Counter(row[0] for row in rows).items() if count > 1)
        raise ValueError(f"{twice} is there twice")
    return found


def sha256_in(digest: str) -> str:
    """The SHA-256 in a line's `sha256=…`, in hexadecimal; empty for another kind, or one that cannot be read."""
    kind, _, value = digest.partition("=")
    try:
        return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex() if kind == "sha256" else ""
    except ValueError:
        return ""
