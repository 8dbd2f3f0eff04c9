"""The one canonical path at which everything is compiled.

nvcc's generated names and sccache's keys take in the absolute working folder, so objects are
shared between checkouts, users and machines only if the path is the same everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from builder.compile.orphans import end_orphans
from builder.context import Context
from builder.errors import StoreError, ToolchainError
from builder.report import counted
from builder.store import Store

_SETTING = "SPARK_WHEELS_ROOT"
_PLAIN = re.compile(r"/[\w./+@-]*")
CANONICAL = Path("/var/tmp/spark-wheels")  # noqa: S108  a fixed path is the purpose; its owner and mode are checked


def canonical_root(root: Path | None = None) -> Path:
    """The canonical folder, made if need be; refuses one that another user owns or may write.

    SPARK_WHEELS_ROOT moves it, at the price of sharing no cached object with anybody else.
    """
    root = root or _asked()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = root.lstat()
    if root.is_symlink() or facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
        raise ToolchainError(
            f"{root} is not safely ours",
            where=str(root),
            expected="a folder, no link, owned by the user who builds, writable by nobody else",
            remedy=f"remove it, or have its owner remove it: rm -r {root}",
        )
    return root


def _asked() -> Path:
    """The folder that the setting names. Raises ToolchainError for one that upstream's builds cannot work in."""
    said = os.environ.get(_SETTING) or str(CANONICAL)
    if not _PLAIN.fullmatch(said):
        raise ToolchainError(
            f"{_SETTING}={said} is no place to compile in",
            where=_SETTING,
            expected="an absolute path of letters, digits and ./+@_- : others end words in cmake's, ninja's and PATH's",
            remedy=f"unset it to compile in {CANONICAL}, or name another folder",
        )
    return Path(said)


@contextmanager
def holding(name: str, context: Context) -> Iterator[None]:
    """Hold a part of the canonical folder against other builds, whatever store they use, dead ones included."""
    locks = Store(canonical_root())
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.lock(name, timeout=0))
        except StoreError:
            context.report.note(f"waiting for another build that holds {name}")
            stack.enter_context(locks.lock(name))
        ended = end_orphans(locks.root)
        if ended:
            context.report.note(f"ended {counted(ended, 'process', 'processes')} that a killed build had left running")
        yield
