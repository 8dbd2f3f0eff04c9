"""The one door to subprocesses: what is hidden, how it stops, what it logs, and that no shell is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from builder import run as door
from builder.errors import Interrupted, RunError
from builder.run import Halt, echo, masked, run, stop, tool_environment
from tests.soon import soon

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://user:pass@host/simple/", "https://***@host/simple/"),
        ("https://user:p@ss@host/simple/", "https://***@host/simple/"),
        ("git+https://token@host/a.git and http://u:p@h", "git+https://***@host/a.git and http://***@h"),
        ("https://host/pkg@1.0", "https://host/pkg@1.0"),
        ("HF_TOKEN=abc", "HF_TOKEN=***"),
        ("AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=***"),
        ("AWS_ACCESS_KEY_ID: abc", "AWS_ACCESS_KEY_ID: ***"),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("authorization: basic YTpi", "authorization: basic ***"),
        ("--password=hunter2 -v", "--password=*** -v"),
        ('{"api_key": "abc"}', '{"api_key": ***'),
        ("passwd: x", "passwd: ***"),
        ("tokenizer.h:12: error: expected ';'", "tokenizer.h:12: error: expected ';'"),
        ("[1/94] Building CUDA object a.cu.o", "[1/94] Building CUDA object a.cu.o"),
    ],
)
def test_masking(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "argv",
    [
        ["curl", "-H", "Authorization: Bearer s3cret"],
        ["tool", "--token", "s3cret"],
        ["tool", "--hf-token", "s3cret one"],
        ["tool", "--password=my s3cret"],
        ["env", "API_KEY=a s3cret", "tool"],
        ["pip", "--index-url", "https://me:s3cret@host/simple"],
    ],
)
def test_no_secret_is_echoed(argv: list[str]) -> None:
    assert "s3cret" not in echo(argv)
    assert "***" in echo(argv)
    assert echo(argv).startswith(argv[0])


def test_echo_is_what_a_person_would_type() -> None:
    assert echo(["nvcc", Path("a b.cu"), "-DX='1'"]) == """nvcc 'a b.cu' '-DX='"'"'1'"'"''"""


def test_output_and_exit() -> None:
    done = run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"])
    assert (done.returncode, sorted(done.output.split())) == (0, ["err", "out"])


def test_there_is_no_shell(tmp_path: Path) -> None:
    argument = f"; rm -rf {tmp_path}; echo $HOME `id` $(id) > {tmp_path}/x & *"
    done = run([sys.executable, "-c", "import sys; print(len(sys.argv), sys.argv[1])", argument])
    assert done.output == f"2 {argument}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_program_is_a_run_error() -> None:
    with pytest.raises(RunError, match="cannot start no-such-tool: No such file") as told:
        run(["no-such-tool", "--token=s3cret"])
    assert told.value.remedy == "install no-such-tool"
    assert told.value.where == "no-such-tool '--token=***'"


def test_a_missing_folder_is_not_called_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot start") as told:
        run([sys.executable, "-V"], cwd=tmp_path / "absent")
    assert "install" not in told.value.remedy
    assert str(tmp_path / "absent") in str(told.value)


def test_a_bad_exit_says_what_was_said_with_secrets_hidden() -> None:
    code = "print('password=s3cret'); print('the cause'); raise SystemExit(3)"
    with pytest.raises(RunError, match="ended with exit 3") as told:
        run([sys.executable, "-c", code])
    assert "the cause" in told.value.expected
    assert "s3cret" not in str(told.value)
    assert run([sys.executable, "-c", code], check=False).returncode == 3


def test_death_by_a_signal_is_named() -> None:
    with pytest.raises(RunError, match="ended with signal SIGKILL"):
        run([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])


def test_the_log_has_commands_and_output_masked_in_order(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "compile.log"
    lines: list[str] = []
    code = "import sys; print('one token=s3cret'); sys.stdout.flush(); print('zwei ä', file=sys.stderr)"
    done = run([sys.executable, "-c", code], log=log, on_line=lines.append)
    with pytest.raises(RunError) as told:
        run([sys.executable, "-c", "print('bad'); raise SystemExit(1)"], log=log)
    assert done.output == ""
    assert lines == ["one token=***", "zwei ä"]
    text = log.read_text(encoding="utf-8")
    assert "s3cret" not in text
    assert [line for line in text.splitlines() if not line.startswith("$ ")] == ["one token=***", "zwei ä", "bad"]
    assert text.count(f"$ {sys.executable} -c ") == 2
    assert told.value.remedy == f"the full log is {log}"


@pytest.mark.parametrize("after", [0, 1480, 1485, 1490, 1495])
def test_a_login_is_masked_wherever_the_end_of_the_output_begins(after: int) -> None:
    code = f"print('redis://someone:s3cret@cache:6379' + '.' * {after}); raise SystemExit(1)"
    with pytest.raises(RunError) as told:
        run([sys.executable, "-c", code])
    assert "s3cret" not in told.value.expected
    assert "cret@" not in told.value.expected


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    code = r"import sys; sys.stdout.buffer.write(b'\xff\xfe\n')"
    assert run([sys.executable, "-c", code]).output == "\ufffd\ufffd\n"
    run([sys.executable, "-c", code], log=tmp_path / "log")
    assert (tmp_path / "log").read_text(encoding="utf-8").endswith("\ufffd\ufffd\n")


ECHO = "import sys; data = sys.stdin.buffer.read(); print(len(data), data[-2:])"


@pytest.mark.parametrize("logged", [False, True])
def test_stdin_is_given_whole(tmp_path: Path, *, logged: bool) -> None:
    lines: list[str] = []
    log = tmp_path / "log" if logged else None
    done = run(
        [sys.executable, "-c", ECHO], stdin=b"x" * 300_000 + b"yz", log=log, on_line=lines.append if log else None
    )
    assert (lines or done.output.splitlines()) == ["300002 b'yz'"]


def test_without_stdin_nothing_waits_for_the_terminal() -> None:
    assert run([sys.executable, "-c", ECHO]).output == "0 b''\n"


def test_a_child_that_answers_before_it_has_read_all_does_not_hang(tmp_path: Path) -> None:
    code = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line)"
    lines: list[str] = []
    run([sys.executable, "-c", code], stdin=b"0123456789\n" * 50_000, log=tmp_path / "log", on_line=lines.append)
    assert len(lines) == 50_000


def test_a_child_that_reads_nothing_is_no_error() -> None:
    assert run(["true"], stdin=b"x" * 1_000_000).returncode == 0


def test_env_is_the_whole_environment() -> None:
    code = "import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))"
    assert run([sys.executable, "-c", code], env={"ONLY": "1"}).output == "['ONLY']\n"


def test_tool_environment_lets_no_settings_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "CXXFLAGS", "PIP_INDEX_URL", "LD_LIBRARY_PATH", "CC"):
        monkeypatch.setenv(name, "leak")
    made = tool_environment({"CC": "gcc-12"}, path=[Path("/tools/bin")])
    assert made["CC"] == "gcc-12"
    assert made["PATH"].startswith("/tools/bin:")
    assert "leak" not in made.values()


# -- stopping ---------------------------------------------------------------------------------

CHILD = """
import os, signal, sys, time
place = sys.argv[1]
def note(number, frame):
    with open(place, "a") as out:
        out.write(signal.Signals(number).name + "\\n")
    if sys.argv[2] == signal.Signals(number).name:
        os._exit(0)
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGTERM, note)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


def _child(tmp_path: Path, obeys: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, tmp_path / "heard", obeys], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


@pytest.mark.parametrize(
    ("obeys", "heard", "code"),
    [
        ("SIGINT", ["SIGINT"], 0),
        ("SIGTERM", ["SIGINT", "SIGTERM"], 0),
        ("nothing", ["SIGINT", "SIGTERM"], -signal.SIGKILL),
    ],
)
def test_stops_are_polite_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obeys: str, heard: list[str], code: int
) -> None:
    patience = {"SIGINT": 10.0 if obeys == "SIGINT" else 1.0, "SIGTERM": 10.0 if obeys == "SIGTERM" else 1.0}
    quicker = tuple((number, patience.get(number.name, 10.0)) for number, _ in door._POLITE)
    monkeypatch.setattr(door, "_POLITE", quicker)
    process = _child(tmp_path, obeys)
    stop(process)
    assert process.returncode == code
    assert (tmp_path / "heard").read_text().split() == heard


def test_the_order_of_politeness() -> None:
    assert [number for number, _ in door._POLITE] == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    assert all(patience >= 5 for _, patience in door._POLITE)


@pytest.mark.parametrize("again", [KeyboardInterrupt, Interrupted])
def test_an_impatient_second_ctrl_c_goes_on_and_leaves_no_child(tmp_path: Path, again: type[BaseException]) -> None:
    process = _child(tmp_path, "SIGTERM")
    heard = tmp_path / "heard"
    wait = process.wait
    calls: list[float | None] = []

    def interrupted(timeout: float | None = None) -> int:
        calls.append(timeout)
        if len(calls) == 1:
            assert soon(lambda: heard.is_file() and heard.read_text() == "SIGINT\n")
            raise again("again")
        return wait(timeout)

    process.wait = interrupted  # type: ignore[method-assign]
    stop(process)
    assert process.returncode == 0
    assert heard.read_text().split() == ["SIGINT", "SIGTERM"]


def _gone(pid: int) -> bool:
    """True when the process has ended, though nobody may have asked for its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


LEADER = """
import subprocess, sys, time
deaf = "import signal, time\\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\\nprint('on', flush=True)\\ntime.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def test_grandchildren_that_outlive_the_leader_are_ended_too() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LEADER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    process.stdout.close()
    stop(process)
    assert soon(lambda: _gone(grandchild))


def test_ctrl_c_while_a_command_runs_ends_it(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from builder.run import run
print("on", flush=True)
run([sys.executable, "-c", {CHILD!r}, sys.argv[1], "SIGINT"], on_line=lambda line: print(line, flush=True))
"""
    place = tmp_path / "heard"
    with subprocess.Popen(
        [sys.executable, "-c", code, place], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as builder:
        assert builder.stdout is not None
        assert [builder.stdout.readline() for _ in range(2)] == ["on\n", "ready\n"]
        os.kill(builder.pid, signal.SIGINT)
        builder.communicate(timeout=60)
    assert place.read_text().split() == ["SIGINT"]


def test_a_callback_that_fails_leaves_no_child_behind(tmp_path: Path) -> None:
    pids: list[int] = []

    def refuse(line: str) -> None:
        pids.append(int(line))
        raise ValueError(line)

    code = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    with pytest.raises(ValueError, match=r"\d+"):
        run([sys.executable, "-c", code], log=tmp_path / "log", on_line=refuse)
    assert soon(lambda: _gone(pids[0]))


def test_a_halt_ends_the_programs_of_all_threads_at_once_and_lets_none_start(tmp_path: Path) -> None:
    halt, told, ready = Halt(), list[str](), threading.Barrier(3, timeout=30)
    run_halting = halt.over(run)

    def ready_line(_: str) -> None:
        ready.wait()

    def work(obeys: str) -> None:
        try:
            run_halting([sys.executable, "-c", CHILD, tmp_path / obeys, obeys], on_line=ready_line)
        except Interrupted as error:
            told.append(str(error))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("SIGINT", "SIGTERM")]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(door, "_POLITE", tuple((number, 1.0) for number, _ in door._POLITE))
        halt.call()
    assert time.monotonic() - start < 5
    for thread in threads:
        thread.join(10)
    assert [(tmp_path / name).read_text().split() for name in ("SIGINT", "SIGTERM")] == [
        ["SIGINT"],
        ["SIGINT", "SIGTERM"],
    ]
    assert len(told) == 2
    with pytest.raises(Interrupted):
        run_halting([sys.executable, "-c", f"open({str(tmp_path / 'late')!r}, 'w')"])
    assert not (tmp_path / "late").exists()


def test_a_halt_that_nobody_calls_changes_nothing() -> None:
    assert Halt().over(run)([sys.executable, "-c", "print(1)"]).output == "1\n"
    with pytest.raises(RunError, match="ended with exit 3"):
        Halt().over(run)([sys.executable, "-c", "raise SystemExit(3)"])
