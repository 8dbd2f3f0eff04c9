"""The compiler cache, in one place: sccache on the local disk, or a shared backend."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from builder.compile.orphans import end_own, socket_of
from builder.compile.place import canonical_root
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.errors import RunError, StoreError, ToolchainError
from builder.report import counted

_LONGEST = 107
"""Bytes that Linux takes for the place of a socket."""

_SHARED = ("SCCACHE_", "AWS_", "ACTIONS_CACHE", "ACTIONS_RESULTS", "ACTIONS_RUNTIME")
_PROXIES = ("https_proxy", "no_proxy")
"""Of either case: buckets and cache services may lie behind one. Storage by plain http is a neighbour's, or our own."""

_REFUSED = {"SCCACHE_SERVER_PORT", "SCCACHE_NO_DAEMON", "SCCACHE_START_SERVER"}
_SIZE = "40G"
UNWRITTEN = "cache writes failed"
_WRITING_SECONDS = 60.0
_IDLE_SECONDS = "14400"
"""sccache counts a unit that is still compiling as idle time, and abandons it when this is up."""


@contextmanager
def compiler_cache(toolchain: Toolchain, context: Context) -> Iterator[Mapping[str, str]]:
    """The environment of sccache, with a server of this build's own that ends with it.

    The caller's SCCACHE_* settings win, so that a shared backend is set in one place, but for those that decide how the
    server runs: the build finds, counts and ends its own by them. Hits and
    misses are counted in the report, entries that could not be read and were compiled again, and those that could not
    be written.
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
    socket = env["SCCACHE_SERVER_UDS"]
    if len(os.fsencode(socket)) > _LONGEST:
        raise ToolchainError(
            f"{canonical_root()} is too long a path for the compiler cache's socket",
            where=socket,
            expected=f"at most {_LONGEST} bytes with the socket's name, {len(os.fsencode(socket))} here",
            remedy="set SPARK_WHEELS_ROOT to a shorter folder, or unset it",
        )
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
    usual = {"SCCACHE_DIR": str(context.store.root / "sccache"), "SCCACHE_CACHE_SIZE": _SIZE}
    asked = {name: value for name, value in os.environ.items() if _is_asked(name)}
    return (
        usual
        | asked
        | {
            "SCCACHE_SERVER_UDS": str(socket_of(canonical_root(), os.getpid())),
            "SCCACHE_IDLE_TIMEOUT": _IDLE_SECONDS,
            "SCCACHE_DIRECT": "false",
        }
    )


def _is_asked(name: str) -> bool:
    return name.lower() in _PROXIES or (name.startswith(_SHARED) and name not in _REFUSED)


def _stop(toolchain: Toolchain, env: Mapping[str, str], context: Context) -> None:
    socket = Path(env.get("SCCACHE_SERVER_UDS", ""))
    if not socket.exists():
        return
    sccache, whole = toolchain.bin / "sccache", toolchain.environment() | dict(env)

    def stats() -> Mapping[str, Any]:
        said = context.run([sccache, "--show-stats", "--stats-format=json"], env=whole).output
        found: Mapping[str, Any] = json.loads(said[said.index("{") :])["stats"]
        return found

    with suppress(RunError, ValueError, KeyError):
        for name, number in counts_in(settled(stats)).items():
            context.report.add(name, number)
    with suppress(RunError):
        context.run([sccache, "--stop-server"], env=whole)
    socket.unlink(missing_ok=True)


def settled(stats: Callable[[], Mapping[str, Any]], patience: float = _WRITING_SECONDS) -> Mapping[str, Any]:
    """The server's figures once nothing is being written any more, or when `patience` (seconds) is up.

    A unit is done before its object is in the storage, and a server that is stopped gives up what it still writes.
    """
    end = time.monotonic() + patience
    while unwritten(found := stats()) > found["cache_write_errors"] and time.monotonic() < end:
        time.sleep(0.2)
    return found


def counts_in(stats: Mapping[str, Any]) -> dict[str, int]:
    """What the summary counts, of sccache's own figures. Raises KeyError where they are of another form."""
    return {
        "cache hits": sum(stats["cache_hits"]["counts"].values()),
        "cache misses": sum(stats["cache_misses"]["counts"].values()),
        "cache entries unreadable": stats["cache_read_errors"],
        UNWRITTEN: unwritten(stats),
    }


def unwritten(stats: Mapping[str, Any]) -> int:
    """Objects that were compiled and are not in the storage: each that it lacked is written, or fails to be."""
    missed: int = sum(stats["cache_misses"]["counts"].values())
    failed: int = stats["cache_write_errors"]
    return max(failed, missed - int(stats["cache_writes"]))


def check_written(context: Context, share: str) -> None:
    """Raise StoreError unless all that this share compiled is in the storage of the cache."""
    lost = context.report.counters.get(UNWRITTEN)
    if lost == 0:
        return
    raise StoreError(
        f"{counted(lost, 'object')} of share {share} could not be written to the compiler cache"
        if lost
        else f"the compiler cache does not say what it has of share {share}",
        where="the storage that the SCCACHE_* settings name",
        expected="every object is written there: the machine that links would compile the others again",
        remedy="give the storage room and the right to write, and run the same share again: it finds what is there",
    )
