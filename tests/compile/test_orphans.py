"""What a killed build left running is ended; what a living one runs is not. Real processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builder.compile.orphans import end_orphans, end_own, socket_of
from tests.soon import soon

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@contextmanager
def left_running(socket: Path, code: str = DEAF) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={"SCCACHE_SERVER_UDS": str(socket)}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def dead() -> int:
    """The number of a process that is no more."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    return gone.pid


def test_a_child_of_a_dead_build_is_ended(tmp_path: Path) -> None:
    with left_running(socket_of(tmp_path, dead()), DEAF.replace("SIG_IGN", "SIG_DFL")) as child:
        assert end_orphans(tmp_path) == 1
        assert child.wait(5) < 0


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    with left_running(socket_of(tmp_path, dead())) as child:
        assert end_orphans(tmp_path, patience=0.2) == 1
        assert child.wait(5) == -9


def test_a_child_of_a_living_build_or_of_another_root_is_left_alone(tmp_path: Path) -> None:
    with (
        left_running(socket_of(tmp_path, os.getpid())) as living,
        left_running(socket_of(tmp_path / "other", dead())) as elsewhere,
    ):
        assert end_orphans(tmp_path) == 0
        assert living.poll() is None
        assert elsewhere.poll() is None


def test_a_builder_that_nobody_has_taken_notice_of_is_dead(tmp_path: Path) -> None:
    """In a container whose first process waits for no child it stays listed for ever."""
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    assert soon(lambda: ") Z " in Path(f"/proc/{zombie.pid}/stat").read_text())
    with left_running(socket_of(tmp_path, zombie.pid), DEAF.replace("SIG_IGN", "SIG_DFL")) as child:
        assert end_orphans(tmp_path) == 1
        assert child.wait(5) < 0
    zombie.wait()


def test_a_build_ends_what_itself_left_running_and_nothing_else(tmp_path: Path) -> None:
    with (
        left_running(socket_of(tmp_path, 41), DEAF.replace("SIG_IGN", "SIG_DFL")) as own,
        left_running(socket_of(tmp_path, 42)) as other,
    ):
        assert end_own(tmp_path, 41) == 1
        assert own.wait(5) < 0
        assert other.poll() is None
