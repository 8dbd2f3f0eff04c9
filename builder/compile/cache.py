"""The compiler cache, in one place: sccache on the local disk, or a shared backend."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from builder.compile.orphans import end_own, socket_of
from builder.compile.place import canonical_root
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.errors import RunError, ToolchainError

_SHARED = ("SCCACHE_", "AWS_", "ACTIONS_CACHE", "ACTIONS_RESULTS", "ACTIONS_RUNTIME")
_SIZE = "40G"
_IDLE_SECONDS = "14400"
"""sccache counts a unit that is still compiling as idle time, and abandons it when this is up."""


@contextmanager
def compiler_cache(toolchain: Toolchain, context: Context) -> Iterator[Mapping[str, str]]:
    """The environment of sccache, with a server of this build's own that ends with it.

    The caller's SCCACHE_* settings win, so that a shared backend is set in one place. Hits and
    misses are counted in the report, and entries that could not be read and were compiled again.
    """
    env = _environment(context)
    _start(toolchain, env, context)
    try:
        yield env
    finally:
        _stop(toolchain, env, context)
        end_own(canonical_root(), os.getpid())


def _start(toolchain: Toolchain, env: Mapping[str, str], context: Context) -> None:
    """Start the server before its clients: two of them at once would start two, and one would outlive the build."""
    try:
        context.run([toolchain.bin / "sccache", "--start-server"], env=toolchain.environment() | dict(env))
    except RunError as error:
        raise ToolchainError(
            "the compiler cache does not start",
            where=error.where,
            expected=f"its storage can be reached; {error.expected}",
            remedy="correct the SCCACHE_* settings, or unset them for a cache on the local disk",
        ) from error


def _environment(context: Context) -> dict[str, str]:
    """A damaged object is compiled again; a damaged entry of direct mode would end the build, so that it is off."""
    ours = {
        "SCCACHE_DIR": str(context.store.root / "sccache"),
        "SCCACHE_CACHE_SIZE": _SIZE,
        "SCCACHE_SERVER_UDS": str(socket_of(canonical_root(), os.getpid())),
        "SCCACHE_IDLE_TIMEOUT": _IDLE_SECONDS,
        "SCCACHE_DIRECT": "false",
    }
    return ours | {name: value for name, value in os.environ.items() if name.startswith(_SHARED)}


def _stop(toolchain: Toolchain, env: Mapping[str, str], context: Context) -> None:
    socket = Path(env.get("SCCACHE_SERVER_UDS", ""))
    if not socket.exists():
        return
    sccache, whole = toolchain.bin / "sccache", toolchain.environment() | dict(env)
    with suppress(RunError, ValueError, KeyError):
        said = context.run([sccache, "--show-stats", "--stats-format=json"], env=whole).output
        stats = json.loads(said[said.index("{") :])["stats"]
        context.report.add("cache hits", sum(stats["cache_hits"]["counts"].values()))
        context.report.add("cache misses", sum(stats["cache_misses"]["counts"].values()))
        context.report.add("cache entries unreadable", stats["cache_read_errors"])
    with suppress(RunError):
        context.run([sccache, "--stop-server"], env=whole)
    socket.unlink(missing_ok=True)
