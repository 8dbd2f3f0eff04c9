"""The compiler cache's settings, in one place: sccache on the local disk, or a shared backend."""

from __future__ import annotations

import os

from builder.compile.place import canonical_root
from builder.context import Context

_SHARED = ("SCCACHE_", "AWS_", "ACTIONS_CACHE", "ACTIONS_RESULTS", "ACTIONS_RUNTIME")
_SIZE = "40G"


def cache_environment(context: Context) -> dict[str, str]:
    """The environment of sccache: the caller's SCCACHE_* settings, else a folder in the store.

    One server for each canonical folder, so that builds with another store never share it.
    """
    ours = {
        "SCCACHE_DIR": str(context.store.root / "sccache"),
        "SCCACHE_CACHE_SIZE": _SIZE,
        "SCCACHE_SERVER_UDS": str(canonical_root() / "sccache.sock"),
        "SCCACHE_IDLE_TIMEOUT": "300",
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
    }
    return ours | {name: value for name, value in os.environ.items() if name.startswith(_SHARED)}
