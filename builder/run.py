"""The only door to subprocesses: argument lists, a log file, polite stops.

A command is echoed into its log with secrets masked; Ctrl-C reaches the whole process group
first as SIGINT, then SIGTERM, then SIGKILL. Threads that work at once share a `Halt`, which ends all of theirs so.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from builder.errors import Interrupted, RunError

_URL_LOGIN = re.compile(r"(?<=://)[^/\s]+@")
_HIDDEN = r"(?:token|secret[\w-]*|passw\w*|api[_-]?key|access[_-]?key[\w-]*|authorization)"
_ASSIGNED = re.compile(rf"(?i)({_HIDDEN}[\"']?[ \t]*[=:][ \t]*(?:(?:basic|bearer|token)[ \t]+)?)\S+?(?=[\"']?(?:\s|$))")
_FLAG = re.compile(rf"(?i)--?[\w-]*{_HIDDEN}")
_WHOLE = re.compile(rf"(?is)([\w-]*{_HIDDEN}=).+")
_POLITE = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. `output` is stdout and stderr together unless a log took it."""

    argv: tuple[str, ...]
    returncode: int
    output: str


class Runner(Protocol):
    """The injected door: tests pass a recording one."""

    def __call__(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        log: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
        halt: Halt | None = None,
    ) -> Completed:
        """Run to the end; raises RunError when it cannot start, or on a bad exit with `check`.

        With `halt` it raises Interrupted when that is called.
        """
        ...


class Halt:
    """Ends at once what several threads run: the programs there are, and those that they would start next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._called = False

    def over(self, door: Runner) -> Runner:
        """That door, obeying this halt."""
        return partial(door, halt=self)

    def call(self) -> None:
        """End every program politely, all at the same time, and let no other start."""
        with self._lock:
            self._called = True
            running = list(self._running)
        stop(*running)

    def check(self) -> None:
        """Raise Interrupted when it was called."""
        if self._called:
            raise Interrupted("stopped, because what runs beside it ended")

    @contextmanager
    def watching(self, start: Callable[[], subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
        """What `start` gives, ended by a call until the block is left, which then ends with Interrupted."""
        with self._lock:
            self.check()
            process = start()
            self._running.append(process)
        try:
            yield process
        finally:
            with self._lock:
                self._running.remove(process)
            self.check()


def masked(text: str) -> str:
    """The text with logins in URLs and secret-looking assignments hidden."""
    return _ASSIGNED.sub(r"\1***", _URL_LOGIN.sub("***@", text))


def echo(argv: Sequence[str | Path]) -> str:
    """The command as a person would type it, secrets masked: `--token x` and `--token=x y` wholly."""
    parts = [str(part) for part in argv]
    follows = [False, *(_FLAG.fullmatch(part) is not None for part in parts)]
    shown = ("***" if secret else _WHOLE.sub(r"\1***", part) for part, secret in zip(parts, follows, strict=False))
    return masked(shlex.join(shown))


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    log: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    check: bool = True,
    halt: Halt | None = None,
) -> Completed:
    """The real Runner. `env` is the whole environment; None means the caller's own."""
    command = tuple(str(part) for part in argv)
    start = partial(_start, command, cwd, env, stdin)
    with _log(log, command) as sink, halt.watching(start) if halt else nullcontext(start()) as process:
        try:
            output = _drain(process, stdin, sink, on_line)
            process.wait()
        except BaseException:
            stop(process)
            raise
    done = Completed(command, process.returncode, output)
    if check and done.returncode != 0:
        raise RunError(
            f"{command[0]} ended with {_how(done.returncode)}",
            where=echo(command),
            expected=f"exit 0; it said: {masked(output)[-1500:].strip()}" if output else "exit 0",
            remedy=f"the full log is {log}" if log else "",
        )
    return done


def stop(*processes: subprocess.Popen[bytes]) -> None:
    """End process groups, all at once: interrupt, terminate, kill, each with time to obey.

    An impatient second Ctrl-C goes on to the next step. What a leader left behind is killed.
    """
    for number, patience in _POLITE:
        end = time.monotonic() + patience
        _signal(processes, number)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt, Interrupted):
            for process in processes:
                process.wait(timeout=max(0.0, end - time.monotonic()))
            break
    _signal(processes, signal.SIGKILL)


def _signal(processes: Sequence[subprocess.Popen[bytes]], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def tool_environment(extra: Mapping[str, str], *, path: Sequence[Path] = ()) -> dict[str, str]:
    """A small, known environment for build tools: no PYTHON*, compiler or pip settings leak in."""
    keep = {
        name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG", "TERM", "SSL_CERT_FILE") if name in os.environ
    }
    folders = [str(folder) for folder in path]
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return keep | {"PATH": ":".join([*folders, system]), "LC_ALL": "C.UTF-8"} | dict(extra)


def _how(code: int) -> str:
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    return f"exit {code}"


def _start(
    command: tuple[str, ...], cwd: Path | None, env: Mapping[str, str] | None, stdin: bytes | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        folder = cwd is not None and not cwd.is_dir()
        raise RunError(
            f"cannot start {command[0]}: {f'no folder {cwd} to start it in' if folder else error.strerror}",
            where=echo(command),
            remedy="run again: the folder was removed meanwhile" if folder else f"install {command[0]}",
        ) from error


def _drain(
    process: subprocess.Popen[bytes],
    stdin: bytes | None,
    sink: IO[str] | None,
    on_line: Callable[[str], None] | None,
) -> str:
    if stdin is not None and sink is None and on_line is None:
        return process.communicate(stdin)[0].decode(errors="replace")
    if stdin is not None:
        threading.Thread(target=_feed, args=(process, stdin), daemon=True).start()
    assert process.stdout is not None  # noqa: S101  it was opened as a pipe
    kept = []
    with process.stdout as lines:
        for raw in lines:
            line = raw.decode(errors="replace")
            told = masked(line)  # who reads along may quote it to people
            if sink is None:
                kept.append(line)
            else:
                sink.write(told)
                sink.flush()
            if on_line is not None:
                on_line(told.rstrip("\n"))
    return "".join(kept)


def _feed(process: subprocess.Popen[bytes], stdin: bytes) -> None:
    """Write all of stdin beside the reader: a child that answers early would fill its pipe and stop."""
    assert process.stdin is not None  # noqa: S101  it was opened as a pipe
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(stdin)


@contextmanager
def _log(path: Path | None, command: tuple[str, ...]) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as sink:
        sink.write(f"$ {echo(command)}\n")
        yield sink
