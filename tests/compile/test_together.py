"""Things at the same time: that they are, whose error is told, and that nothing runs on after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from builder.compile.together import together
from builder.errors import CompileError
from tests.soon import soon

ROOT = Path(__file__).parents[2]


def idle() -> None:
    raise AssertionError("nothing is to be stopped")


def test_they_run_at_the_same_time_and_answer_in_their_order() -> None:
    meeting, second = threading.Barrier(2, timeout=30), threading.Event()

    def early() -> str:
        meeting.wait()
        second.wait(30)
        return "first"

    def late() -> str:
        meeting.wait()
        second.set()
        return "second"

    assert together([early, late], idle) == ["first", "second"]


def test_a_single_one_runs_in_place() -> None:
    assert together([threading.current_thread], idle) == [threading.current_thread()]


def test_the_first_error_ends_the_others_and_is_the_one_that_is_told() -> None:
    stopped, ended = threading.Event(), list[str]()

    def other() -> None:
        assert stopped.wait(30)
        ended.append("other")
        raise ValueError("because it was stopped")

    def bad() -> None:
        raise CompileError("a unit failed")

    with pytest.raises(CompileError, match="a unit failed"):
        together([other, bad, other], stopped.set)
    assert ended == ["other", "other"]


def test_an_error_that_comes_while_all_end_well_is_not_lost() -> None:
    def bad() -> None:
        time.sleep(0.05)
        raise CompileError("the last")

    with pytest.raises(CompileError, match="the last"):
        together([lambda: None, bad], lambda: None)


def test_ctrl_c_reaches_all() -> None:
    stopped = threading.Event()

    def press() -> bool:  # by one of them: a timer may be early, and would end the tests
        os.kill(os.getpid(), signal.SIGINT)
        return stopped.wait(30)

    with pytest.raises(KeyboardInterrupt):
        together([lambda: stopped.wait(30), press], stopped.set)
    assert stopped.is_set()


def test_ctrl_c_before_all_have_begun_ends_those_that_have(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, begin, begun = threading.Event(), threading.Thread.start, list[threading.Thread]()

    def start(thread: threading.Thread) -> None:
        if begun:
            raise KeyboardInterrupt
        begun.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        together([lambda: stopped.wait(30)] * 3, stopped.set)
    assert stopped.is_set()
    assert not begun[0].is_alive()


def test_one_that_does_not_hear_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[together.__module__], "GRACE", 0.1)
    never = threading.Event()

    def bad() -> bool:
        raise CompileError("x")

    start = time.monotonic()
    with pytest.raises(CompileError):
        together([lambda: never.wait(60), bad], lambda: None)
    assert time.monotonic() - start < 10
    never.set()


BUILD = """
import os, signal, sys
from builder.__main__ import _interrupted
from builder.compile.together import together
from builder.errors import Interrupted
from builder.run import Halt, run

signal.signal(signal.SIGTERM, _interrupted)
halt = Halt()
door = halt.over(run)
child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"

def act():
    door([sys.executable, "-c", child], on_line=lambda line: os.write(1, f"{line}\\n".encode()))

try:
    together([act, act], halt.call)
except (Interrupted, KeyboardInterrupt) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("number", "said"), [(signal.SIGTERM, "Interrupted"), (signal.SIGINT, "KeyboardInterrupt")])
def test_a_signal_ends_what_every_thread_runs(number: signal.Signals, said: str) -> None:
    with subprocess.Popen([sys.executable, "-c", BUILD], cwd=ROOT, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        children = [int(build.stdout.readline()) for _ in range(2)]
        build.send_signal(number)
        out, _ = build.communicate(timeout=30)
    assert (build.returncode, out.split()[-1]) == (0, said)
    assert soon(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
