"""Writes a patch file: its header as it was, its diff in one stable form.

The form is `git diff --full-index`: three lines of context, full blob ids, no date, no version
of a tool; so two exports of the same change are the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pygit2
from pygit2.enums import DeltaStatus

from builder.errors import PatchError
from builder.git import Objects
from builder.patches.load import Patch
from builder.patches.paths import quoted

_NONE = "0" * 40


def diff_bytes(objects: Objects, old: str, new: str) -> bytes:
    """The diff from one tree to another; raises PatchError for a binary change."""
    return b"".join(part for patch in objects.diff(old, new) if patch is not None for part in _file(patch))


def exported(patch: Patch, diff: bytes, applies_to: str = "") -> bytes:
    """A patch file with this diff under the header of `patch`.

    With `applies_to`, a header that names one version (`==0.20.0`, or `vllm 0.20.0`) names that.
    """
    head = b"".join(patch.diff.preamble)
    if applies_to:
        head = re.sub(rb"(?m)^(Applies-To:.*?)(?<![\d.])\d+(?:\.\d+)+\S*[ \t]*$", rb"\g<1>" + applies_to.encode(), head)
    return head + diff


def _file(patch: pygit2.Patch) -> Iterator[bytes]:
    delta = patch.delta
    if delta.is_binary:
        raise PatchError(
            f"{delta.new_file.path} is binary",
            where="refresh",
            expected="a change of text",
            remedy="undo the change of that file in the work tree",
        )
    yield "".join(f"{line}\n" for line in _head(delta)).encode()
    if patch.hunks:
        old = "/dev/null" if delta.status == DeltaStatus.ADDED else _name(delta.old_file.path, "a/")
        new = "/dev/null" if delta.status == DeltaStatus.DELETED else _name(delta.new_file.path, "b/")
        yield f"--- {old}\n+++ {new}\n".encode()
    for hunk in patch.hunks:
        yield hunk.header.encode()
        for line in hunk.lines:
            yield (line.origin.encode() if line.origin in " +-" else b"") + line.raw_content


def _head(delta: pygit2.DiffDelta) -> Iterator[str]:
    old, new = delta.old_file, delta.new_file
    yield f"diff --git {quoted(old.path, 'a/')} {quoted(new.path, 'b/')}"
    both = delta.status not in {DeltaStatus.ADDED, DeltaStatus.DELETED}
    if delta.status == DeltaStatus.ADDED:
        yield f"new file mode {new.mode:o}"
    elif delta.status == DeltaStatus.DELETED:
        yield f"deleted file mode {old.mode:o}"
    elif old.mode != new.mode:
        yield f"old mode {old.mode:o}"
        yield f"new mode {new.mode:o}"
    if delta.status == DeltaStatus.RENAMED:
        yield f"similarity index {delta.similarity}%"
        yield f"rename from {quoted(old.path)}"
        yield f"rename to {quoted(new.path)}"
    before = _NONE if delta.status == DeltaStatus.ADDED else str(old.id)
    after = _NONE if delta.status == DeltaStatus.DELETED else str(new.id)
    if before != after:
        yield f"index {before}..{after}" + (f" {new.mode:o}" if both and old.mode == new.mode else "")


def _name(path: str, prefix: str) -> str:
    name = quoted(path, prefix)
    return f"{name}\t" if " " in name and not name.startswith('"') else name
