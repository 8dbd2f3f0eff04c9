"""The gate around real programs: it waits, measures, tries again, passes on what they end with."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from builder.compile.gate.admission import Step
from builder.compile.gate.queue import Queue
from builder.compile.gate.step import FOLDER, JOBS, Gate
from builder.compile.gate.task import Task
from builder.compile.stubs import Stub, gate_folder
from builder.store import Store
from tests.soon import soon

MB = 1 << 20
EATER = f"#!{sys.executable} -IS\nimport sys, time\n"


def ended(process: "subprocess.Popen[str]") -> int:
    process.communicate(timeout=30)
    return process.returncode


class Bench:
    """A folder with a gate, a log and programs to run through it."""

    def __init__(self, root: Path) -> None:
        self.root, self.gate, self.log = root, root / "gate", root / "steps.jsonl"
        self.code, self.tool = gate_folder(Store(root / "store")), "cicc"
        (root / "in.ii").write_text("int x;\n")

    def program(self, code: str) -> Path:
        path = self.root / "program"
        path.write_text(EATER + code)
        path.chmod(0o755)
        return path

    def start(self, program: Path, *args: str, **env: str) -> "subprocess.Popen[str]":
        settings = {
            "SPARK_GATE": str(self.gate),
            "SPARK_GATE_LOG": str(self.log),
            "SPARK_UNIT": "CMakeFiles/_C.dir/csrc/x.cu.o",
        }
        command = [
            sys.executable,
            "-I",
            "-S",
            str(self.code),
            self.tool,
            str(program),
            *(args or ("in.ii", "-o", "out")),
        ]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.root, env=settings | env, stdout=pipe, stderr=pipe, text=True)

    def run(self, program: Path, *args: str, **env: str) -> int:
        return ended(self.start(program, *args, **env))

    def until_waiting(self) -> None:
        """Until a second ticket is there, and it has looked around a few times."""
        assert soon(lambda: len([*self.gate.glob("0*-*"), *self.gate.glob("1*-*")]) >= 2)
        time.sleep(0.5)

    def child(self) -> int:
        """The process whose program wrote its number into the file `pid`."""
        pid = self.root / "pid"
        assert soon(lambda: pid.exists() and pid.read_text())
        return int(pid.read_text())

    def steps(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def ticket(self, step: Step, name: str = "0000000001.000000-1") -> Path:
        self.gate.mkdir(exist_ok=True)
        path = self.gate / name
        path.write_bytes(step.text().ljust(120))
        return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_step_is_measured_and_its_exit_code_is_passed_on(bench: Bench) -> None:
    program = bench.program(f"block = bytearray({60 * MB})\nprint(sys.argv[1:])\nsys.exit(3)\n")
    process = bench.start(program, "-arch", "compute_121a", "in.ii", "-o", "out.ptx")
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (3, "['-arch', 'compute_121a', 'in.ii', '-o', 'out.ptx']\n")
    (step,) = bench.steps()
    assert 60 * MB < step["peak_bytes"] < 110 * MB
    assert (step["unit"], step["tool"], step["arch"], step["exit"]) == ("csrc/x.cu", "cicc", "sm_121a", 3)
    assert step["asked"] <= step["start"] < step["end"]
    assert [path.name for path in bench.gate.iterdir()] == ["lock"]


def test_a_run_that_compiles_nothing_goes_straight_through(bench: Bench) -> None:
    process = bench.start(bench.program("print(sys.argv)\n"), "--version")
    assert process.communicate(timeout=30)[0].strip().endswith("'--version']")
    assert bench.steps() == []
    assert not bench.gate.exists()


def test_preprocessing_waits_for_nobody_and_is_measured(bench: Bench) -> None:
    bench.tool, log = "cc1plus", bench.root / "preprocessed.jsonl"
    program = bench.program("sum(range(3_000_000))\nprint(sys.argv[1:])\nsys.exit(3)\n")
    process = bench.start(program, "-E", "in.cc", SPARK_GATE_PREPROCESSED=str(log))
    assert process.communicate(timeout=30)[0] == "['-E', 'in.cc']\n"
    assert process.returncode == 3
    (line,) = map(json.loads, log.read_text().splitlines())
    assert line["unit"] == "csrc/x.cu"
    assert 0 < line["cpu_seconds"] <= line["end"] - line["start"] + 0.05
    assert bench.steps() == []
    assert not bench.gate.exists()


@pytest.mark.parametrize("log", ["", "missing/preprocessed.jsonl"])
def test_preprocessing_without_a_log_hinders_no_compile(bench: Bench, log: str) -> None:
    bench.tool = "cc1plus"
    process = bench.start(bench.program("print('ran')\n"), "-E", "in.cc", SPARK_GATE_PREPROCESSED=log)
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out, log in said) == (0, "ran\n", True)


def test_no_arguments_at_all_are_passed_on_too(bench: Bench) -> None:
    command = [sys.executable, "-I", "-S", str(bench.code)]
    for tool in ("ptxas", "ninja", "cc1plus"):
        run = [*command, tool, str(bench.program("print(len(sys.argv))\n"))]
        assert (
            subprocess.run(run, env={"SPARK_GATE": str(bench.gate)}, capture_output=True, check=True).stdout == b"1\n"
        )


def test_a_build_file_that_is_no_text_hinders_no_build(bench: Bench) -> None:
    (bench.root / "build.ninja").write_bytes(b"\xff\xfe")
    command = [sys.executable, "-I", "-S", str(bench.code), "ninja", str(bench.program("print('ran')\n"))]
    assert subprocess.run(command, cwd=bench.root, capture_output=True, check=True).stdout == b"ran\n"


def test_a_stub_without_the_gate_runs_the_program_itself(bench: Bench) -> None:
    program = bench.program("print('itself', sys.argv[1:])\n")
    stub = bench.root / "stub"
    stub.write_text(Stub("cicc", str(program), 10).text(str(bench.root / "nowhere")))
    stub.chmod(0o755)
    said = subprocess.run([stub, "a b", "in.ii"], env={}, capture_output=True, text=True, check=True)
    assert said.stdout == "itself ['a b', 'in.ii']\n"


def test_a_folder_that_cannot_be_made_hinders_no_compile(bench: Bench) -> None:
    (bench.root / "file").write_text("")
    process = bench.start(bench.program("print('ran')\n"), SPARK_GATE=str(bench.root / "file/gate"))
    assert process.communicate(timeout=30)[0] == "ran\n"


def test_settings_that_cannot_be_read_hinder_no_compile(bench: Bench) -> None:
    process = bench.start(bench.program("print('ran')\n"), SPARK_GATE_JOBS="many")
    assert process.communicate(timeout=30) == ("ran\n", "")
    (bench.root / "learned.tsv").write_text("cicc\tcsrc/x.cu\t\tmuch\t5.0\n")
    process = bench.start(bench.program("print('ran')\n"), SPARK_GATE_LEARNED=str(bench.root / "learned.tsv"))
    assert process.communicate(timeout=30) == ("ran\n", "")


def test_a_folder_that_goes_away_while_it_waits_hinders_no_compile(bench: Bench) -> None:
    with bench.ticket(Step(asked=1, expected=1, running=True, alone=True)).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = bench.start(bench.program("print('ran')\n"))
        bench.until_waiting()
        shutil.rmtree(bench.gate)
        assert process.communicate(timeout=30) == ("ran\n", "")


WITHOUT_PIDFD = """
import os, runpy, sys
def refused(*_): raise PermissionError(1, "no such call here")
os.pidfd_open = refused
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_where_the_end_of_a_program_cannot_be_waited_for_it_is_looked_for(bench: Bench) -> None:
    program = bench.program(f"block = bytearray({60 * MB})\ntime.sleep(0.3)\nsys.exit(3)\n")
    command = [sys.executable, "-I", "-S", "-c", WITHOUT_PIDFD, str(bench.code), "cicc", str(program), "in.ii"]
    env = {"SPARK_GATE": str(bench.gate), "SPARK_GATE_LOG": str(bench.log)}
    done = subprocess.run(command, cwd=bench.root, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (3, "")
    (step,) = bench.steps()
    assert step["exit"] == 3
    assert step["peak_bytes"] > 60 * MB


def test_a_ticket_that_its_holder_takes_along_between_two_looks_is_nobodys(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket, queue, looked = bench.ticket(Step(asked=1, expected=1)), Queue(str(bench.gate)), fcntl.flock

    def holder_leaves_first(handle: int, how: int) -> None:
        ticket.unlink(missing_ok=True)
        looked(handle, how)

    monkeypatch.setattr("builder.compile.gate.queue.fcntl.flock", holder_leaves_first)
    assert queue.others() == []
    assert not ticket.exists()


def test_the_ticket_of_a_dead_holder_is_void(bench: Bench) -> None:
    ticket = bench.ticket(Step(asked=1, expected=1 << 60, running=True, alone=True))
    assert bench.run(bench.program("")) == 0
    assert not ticket.exists()


def test_it_waits_for_one_that_runs_alone_and_starts_when_that_one_is_gone(bench: Bench) -> None:
    with bench.ticket(Step(asked=1, expected=1, running=True, alone=True)).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = bench.start(bench.program(""))
        bench.until_waiting()
        assert process.poll() is None
        assert bench.steps() == []
    assert ended(process) == 0
    (step,) = bench.steps()
    assert step["start"] - step["asked"] > 0.3


def test_of_those_that_wait_the_longest_unit_is_the_first(bench: Bench) -> None:
    """Whichever ninja it is of, and though it asked last."""
    learned = bench.root / "learned.tsv"
    learned.write_text("unit\tcsrc/long.cu\t\t1\t500.0\nunit\tcsrc/short.cu\t\t1\t2.0\n")
    settings = {"SPARK_GATE_LEARNED": str(learned), "SPARK_GATE_JOBS": "1"}
    program = bench.program("time.sleep(0.3)\n")
    with bench.ticket(Step(asked=1, expected=1, running=True)).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        units = ("csrc/short.cu", "csrc/long.cu")
        waiting = []
        for unit in units:
            waiting.append(bench.start(program, SPARK_UNIT=f"CMakeFiles/_C.dir/{unit}.o", **settings))
            assert soon(lambda: len(list(bench.gate.iterdir())) >= 2 + len(waiting))
    assert [ended(process) for process in waiting] == [0, 0]
    assert [step["unit"] for step in bench.steps()] == ["csrc/long.cu", "csrc/short.cu"]
    long, short = bench.steps()
    assert short["asked"] < long["asked"], "the log has when each really asked"


@pytest.mark.parametrize("ahead", [0, 4, 40])
def test_the_more_are_ahead_the_less_often_it_looks(bench: Bench, monkeypatch: pytest.MonkeyPatch, ahead: int) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        raise InterruptedError

    monkeypatch.setattr("builder.compile.gate.step.time.sleep", sleep)
    with ExitStack() as held:
        for number in range(1 + ahead):
            ticket = bench.ticket(Step(asked=1, expected=1, running=number == 0), f"{number:010}.000000-1")
            fcntl.flock(held.enter_context(ticket.open("rb")), fcntl.LOCK_EX)
        gate = Gate(Task("cicc", "/cicc", [str(bench.root / "in.ii")]), {FOLDER: str(bench.gate), JOBS: "1"})
        gate.join()
        with pytest.raises(InterruptedError):
            gate._ask(None)
    assert slept == [pytest.approx(min(0.5, 0.1 * (1 + ahead / 2)))]


def test_a_step_that_is_expected_to_take_more_than_is_free_waits_beside_another(bench: Bench) -> None:
    learned = bench.root / "learned.tsv"
    learned.write_text(f"cicc\tcsrc/x.cu\t\t{1 << 50}\t5.0\n")
    with bench.ticket(Step(asked=1, expected=1, running=True, start=time.time())).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = bench.start(bench.program(""), SPARK_GATE_LEARNED=str(learned))
        bench.until_waiting()
        assert process.poll() is None
    assert ended(process) == 0
    assert bench.steps()[0]["expected_bytes"] == (1 << 50) * 21 // 20


def test_one_that_the_kernel_kills_is_run_again_alone(bench: Bench) -> None:
    code = (
        "import os, pathlib\nmark = pathlib.Path('mark')\n"
        "if not mark.exists():\n    mark.touch()\n    os.kill(os.getpid(), 9)\n"
    )
    assert bench.run(bench.program(code)) == 0
    first, second = bench.steps()
    assert (first["attempt"], first["exit"], first["killed"], first["alone"]) == (1, -9, "kernel", 0)
    assert (second["attempt"], second["exit"], second["killed"], second["alone"]) == (2, 0, "", 1)


def test_one_that_is_killed_even_alone_ends_with_137_and_says_memory(bench: Bench) -> None:
    process = bench.start(bench.program("import os\nos.kill(os.getpid(), 9)\n"))
    _, said = process.communicate(timeout=30)
    assert process.returncode == 137
    assert "cicc of csrc/x.cu was killed for memory at " in said
    assert [step["attempt"] for step in bench.steps()] == [1, 2]


def test_a_polite_end_reaches_the_program_and_is_our_own_end(bench: Bench) -> None:
    code = (
        "import signal\nsignal.signal(15, lambda *_: (open('told', 'w').close(), sys.exit(0)))\n"
        "open('up', 'w').close()\ntime.sleep(30)\n"
    )
    process = bench.start(bench.program(code))
    assert soon((bench.root / "up").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert (bench.root / "told").exists()


def test_a_waiting_one_ends_at_once_and_leaves_no_claim(bench: Bench) -> None:
    with bench.ticket(Step(asked=1, expected=1, running=True, alone=True)).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        process = bench.start(bench.program(""))
        bench.until_waiting()
        process.terminate()
        assert ended(process) == -signal.SIGTERM
    assert bench.run(bench.program("")) == 0
    assert [path.name for path in bench.gate.iterdir()] == ["lock"]


def test_one_that_waits_to_be_tried_again_ends_at_once(bench: Bench) -> None:
    process = bench.start(bench.program("import os\nos.kill(os.getpid(), 9)\n"))
    with bench.ticket(Step(asked=9e9, expected=1, running=True, start=time.time())).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert soon(bench.steps)
        time.sleep(0.3)
        process.terminate()
        assert ended(process) == 128 + signal.SIGTERM
    assert len(bench.steps()) == 1


def test_when_the_one_that_started_it_dies_the_program_is_ended(bench: Bench) -> None:
    program = bench.program("import os\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    start = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
    gate = [sys.executable, "-I", "-S", str(bench.code), "cicc", str(program), "in.ii"]
    starter = subprocess.Popen([*start, *gate], cwd=bench.root, env={"SPARK_GATE": str(bench.gate)})
    child = bench.child()
    starter.kill()
    starter.wait()
    assert soon(lambda: not Path(f"/proc/{child}").exists())


def test_when_the_gate_itself_is_killed_the_program_ends_with_it(bench: Bench) -> None:
    process = bench.start(bench.program("import os\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n"))
    child = bench.child()
    process.kill()
    ended(process)
    assert soon(lambda: not Path(f"/proc/{child}").exists())


def test_while_it_waits_its_token_is_lent_to_others(bench: Bench) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    with bench.ticket(Step(asked=1, expected=1, running=True, alone=True)).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        command = [sys.executable, "-I", "-S", str(bench.code), "cicc", str(bench.program("")), "in.ii"]
        env = {"SPARK_GATE": str(bench.gate), "CARGO_MAKEFLAGS": f"-j --jobserver-auth={read},{write}"}
        process = subprocess.Popen(command, cwd=bench.root, env=env, pass_fds=(read, write))
        bench.until_waiting()
        lent = os.read(read, 10)
        os.write(write, lent)
    assert process.wait(30) == 0
    assert lent == b"+", "one token"
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    os.close(read)
    os.close(write)


GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def limited() -> Iterator[Path]:
    """A cgroup of version 1 with 300 MB, where we may make one."""
    group = GROUPS / f"spark-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(300 * MB))
    except OSError:
        pytest.skip("no memory cgroup to write to")
    yield group
    for _ in range(50):
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def test_steps_that_take_far_more_than_was_expected_still_finish_under_a_limit(bench: Bench, limited: Path) -> None:
    learned = bench.root / "learned.tsv"
    learned.write_text(f"cicc\tcsrc/x.cu\t\t{10 * MB}\t5.0\n")
    code = f"blocks = []\nfor _ in range(50):\n    blocks.append(b'x' * {4 * MB})\n    time.sleep(0.02)\n"
    program = bench.program(code)
    (bench.root / "inside").write_text(f'#!/bin/sh\necho $$ > {limited}/cgroup.procs\nexec "$@"\n')
    (bench.root / "inside").chmod(0o755)
    command = [str(bench.root / "inside"), sys.executable, "-I", "-S", str(bench.code), "cicc", str(program), "in.ii"]
    env = {
        "SPARK_GATE": str(bench.gate),
        "SPARK_GATE_LOG": str(bench.log),
        "SPARK_GATE_LEARNED": str(learned),
        "SPARK_GATE_JOBS": "2",
        "SPARK_UNIT": "CMakeFiles/_C.dir/csrc/x.cu.o",
    }
    running = [subprocess.Popen(command, cwd=bench.root, env=env) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    steps = bench.steps()
    assert all(step["killed"] != "kernel" for step in steps)
    assert sum(step["exit"] == 0 for step in steps) == 2
    oom = (limited / "memory.oom_control").read_text()
    assert "oom_kill 0" in oom
