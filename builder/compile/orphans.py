"""What a build killed outright (kill -9, out of memory) leaves running: ninja, compilers, a cache server.

Its locks fall with it, but its children go on writing into the build folder, where the next build would
meet them. Each carries the name of the build's cache socket in its environment, and with it the
process number of the builder that started it.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def socket_of(root: Path, builder: int) -> Path:
    """The cache socket of the build that process number `builder` runs."""
    return root / f"sccache-{builder}.sock"


def end_orphans(root: Path, proc: Path = Path("/proc"), patience: float = 5.0) -> int:
    """End what builds that are no more left running for `root`; returns the number of processes.

    Each is asked to end first, and killed after `patience` seconds. Processes of a living build, of another user
    or of another container are left alone.
    """
    return _end([process for process, builder in _started(root, proc) if not _runs(proc / builder)], proc, patience)


def end_own(root: Path, builder: int, proc: Path = Path("/proc"), patience: float = 5.0) -> int:
    """The same for what the build that is process number `builder` started itself, when it is about to end."""
    return _end([process for process, by in _started(root, proc) if int(by) == builder], proc, patience)


def _end(found: list[int], proc: Path, patience: float) -> int:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        if _gone(found, proc, patience):
            break
    return len(found)


def _started(root: Path, proc: Path) -> Iterator[tuple[int, str]]:
    """Processes that builds for `root` started, each with its builder's process number."""
    mark = re.compile(rb"(?:^|\0)SCCACHE_SERVER_UDS=" + re.escape(bytes(root / "sccache-")) + rb"(\d+)\.sock\0")
    for place in proc.glob("[0-9]*"):
        with suppress(OSError):
            started = mark.search((place / "environ").read_bytes())
            if started and _same_space(place, proc):
                yield int(place.name), started[1].decode()


def _same_space(place: Path, proc: Path) -> bool:
    """Process numbers mean the same there as here."""
    return (place / "ns" / "pid").readlink() == (proc / "self" / "ns" / "pid").readlink()


def _gone(processes: list[int], proc: Path, patience: float) -> bool:
    end = time.monotonic() + patience
    while any(_runs(proc / str(process)) for process in processes):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _runs(place: Path) -> bool:
    """Still there, and not merely waiting for its parent to take notice."""
    try:
        return b") Z " not in (place / "stat").read_bytes()
    except OSError:
        return False
