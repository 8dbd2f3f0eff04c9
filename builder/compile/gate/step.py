"""One step: asks, runs the program, watches it, writes its line in the log."""

from __future__ import annotations

import os
import signal
import time

from .admission import Step, admits, brake, low_mark, reserve
from .child import Child
from .memory import Memory
from .queue import Queue
from .say import say
from .task import Task, expectation, head_start
from .tokens import Tokens

FOLDER, LOG, LEARNED, JOBS = "SPARK_GATE", "SPARK_GATE_LOG", "SPARK_GATE_LEARNED", "SPARK_GATE_JOBS"
UNIT, DEVICE = "SPARK_UNIT", "SPARK_GATE_DEVICE"
"""Environment: the folder of tickets (absent: no gate), the log, what was learned, steps at once, the unit's object."""

_TICK, _LONG_TICK = 0.1, 0.5
_SHORT_TICK = 0.02
"""Seconds between looks at memory, when there is plenty and when there is not: cicc takes up to 1 GB a second. One that
waits looks the less often the more are ahead of it, or a queue of forty would spend a fifth of a core on looking; never
so seldom that a core stays idle when the queue ends."""

_PATIENCE = 1.0
"""Seconds that a program has to end when nobody waits for what it makes."""


class Ended:
    """How a child ended: its wait status, CPU seconds, peak bytes, and who killed it (`gate`, `kernel`, nobody)."""

    __slots__ = ("cpu", "killed", "peak", "status")

    def __init__(self, status: int, cpu: float, peak: int, killed: str) -> None:
        self.status, self.cpu, self.peak, self.killed = status, cpu, peak, killed


class Gate:
    """One step from asking to its line in the log."""

    def __init__(self, task: Task, environment: dict[str, str]) -> None:
        self._task = task
        self._queue = Queue(environment[FOLDER])
        self._memory = Memory()
        self._jobs = int(environment.get(JOBS, "0") or 0) or len(os.sched_getaffinity(0))
        self._log = environment.get(LOG, "")
        self._tokens = Tokens(environment.get("CARGO_MAKEFLAGS", ""))
        self._parent = os.getppid()
        self._signal = 0
        self._ample = True
        learned = _whole(environment.get(LEARNED, ""))
        peak, seconds = expectation(task, learned)
        self._asked, self._ahead = time.time(), 0
        self._step = Step(asked=self._asked - head_start(task, learned, seconds), expected=peak, seconds=seconds)

    def join(self) -> None:
        """Take a place in the queue; raises OSError where that cannot be."""
        self._queue.join(self._step)

    def run(self) -> int:
        """Wait, run, log, and again after a kill; returns the wait status of the last attempt.

        Where waiting or starting it cannot be, the program takes our place, ungoverned.
        """
        attempt, ended = 0, None
        while ended is None or self._to_repeat(ended):
            attempt += 1
            try:
                self._ask(ended)
                child = self._start()
            except (OSError, ValueError):
                os.execv(self._task.real, [self._task.real, *self._task.args])  # noqa: S606
            ended = self._watch(child)
            self._write(ended, attempt)
        self._queue.leave()
        if ended.killed and not self._signal:
            say(f"{self._task.tool} of {self._task.unit} was killed for memory at {ended.peak} bytes, running alone")
        return ended.status

    def _to_repeat(self, ended: Ended) -> bool:
        return bool(ended.killed) and not self._signal and not (self._step.alone and ended.killed == "kernel")

    def _ask(self, before: Ended | None) -> None:
        if before is not None:
            self._again(before)
        while not self._admitted():
            self._tokens.give()
            if self._signal or os.getppid() != self._parent:
                os._exit(128 + self._signal)
            time.sleep(min(_LONG_TICK, _TICK * (1 + self._ahead / 2)))
        self._tokens.take()

    def _admitted(self) -> bool:
        with self._queue as queue:
            available, total = self._memory.now()
            others, step, now = queue.others(), self._step, time.time()
            self._ahead = sum(not other.running and other.asked < step.asked for other in others)
            step.running = admits(step, others, available - reserve(total), self._jobs, now)
            if step.running:
                step.start, step.child = now, 0
                queue.tell(step)
            return step.running

    def _start(self) -> int:
        """The child's process id; raises OSError where there can be no child."""
        me = os.getpid()
        child = os.fork()
        if child == 0:
            become(self._task, me)
        self._step.child = child
        self._tell_child()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._pass_on)
        return child

    def _pass_on(self, number: int, _frame: object) -> None:
        self._signal = number
        _tell(self._step.child, number)
        _tell(self._step.child, signal.SIGCONT)

    def _watch(self, child: int) -> Ended:
        """Wait for the child, pausing and ending it as memory asks for."""
        doing, waiting = "go", Child(child)
        while not waiting.ended(_TICK if self._ample else _SHORT_TICK):
            if os.getppid() != self._parent:
                self._pass_on(signal.SIGKILL if self._signal else signal.SIGTERM, None)
                time.sleep(_PATIENCE)
            elif doing != "yield":
                doing = self._braked(child, doing)
        _, status, usage = os.wait4(child, 0)
        by_kill = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        killed = ("gate" if doing == "yield" else "kernel") if by_kill else ""
        return Ended(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, killed)

    def _tell_child(self) -> None:
        try:
            self._queue.tell(self._step)
        except OSError:  # others then take it for as large as was expected
            return

    def _braked(self, child: int, doing: str) -> str:
        try:
            return self._brake(child, doing)
        except (OSError, ValueError):  # what cannot be seen holds nothing up
            _tell(child, signal.SIGCONT)
            return "go"

    def _brake(self, child: int, doing: str) -> str:
        available, total = self._memory.now()
        low = low_mark(total)
        self._ample = available > 4 * low
        if doing == "go" and available >= low:
            return doing
        with self._queue as queue:
            running = [step for step in queue.others() if step.running]
        told = brake(self._step, running, available, low, paused=doing == "pause")
        if told != doing:
            _tell(child, {"go": signal.SIGCONT, "pause": signal.SIGSTOP, "yield": signal.SIGKILL}[told])
        return told

    def _again(self, ended: Ended) -> None:
        """Queue up again, expecting more; alone after the kernel had to kill it."""
        step = self._step
        step.expected = max(step.expected, ended.peak * 3 // 2)
        step.alone = step.alone or ended.killed == "kernel"
        step.running, step.child = False, 0
        with self._queue as queue:
            queue.tell(step)

    def _write(self, ended: Ended, attempt: int) -> None:
        task, step = self._task, self._step
        line = json_line(
            {
                "unit": task.unit,
                "object": task.object,
                "tool": task.tool,
                "arch": task.arch,
                "pid": step.child,
                "asked": self._asked,
                "start": step.start,
                "end": time.time(),
                "cpu_seconds": round(ended.cpu, 3),
                "peak_bytes": ended.peak,
                "expected_bytes": step.expected,
                "attempt": attempt,
                "exit": os.waitstatus_to_exitcode(ended.status),
                "killed": ended.killed,
                "alone": int(step.alone),
            }
        )
        append(self._log, line)


def append(log: str, line: bytes) -> None:
    """Add a line in one write, so that those of other steps stay whole; without a name there is no log."""
    if not log:
        return
    try:
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(handle, line)
        os.close(handle)
    except OSError as error:
        say(f"cannot write {log}: {error.strerror}")


def json_line(values: dict[str, str | int | float]) -> bytes:
    """One line of JSON, of text and numbers."""
    from _json import encode_basestring_ascii as quoted  # the rest of json takes 15 ms to import

    pairs = (f"{quoted(name)}: {quoted(v) if isinstance(v, str) else repr(v)}" for name, v in values.items())
    return f"{{{', '.join(pairs)}}}\n".encode()


def _whole(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            return stream.read()
    except OSError:
        return ""


def _tell(child: int, number: int) -> None:
    if child:
        try:
            os.kill(child, number)
        except ProcessLookupError:  # contextlib takes too long to import
            return


def become(task: Task, parent: int) -> None:
    """In the child: end with the gate, be the first that the kernel takes when memory ends, be the program."""
    try:
        from ctypes import CDLL

        CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as stream:  # noqa: PTH123
            stream.write("500")
    except (ImportError, AttributeError, OSError):
        pass
    if os.getppid() != parent:
        os._exit(1)
    try:
        os.execv(task.real, [task.real, *task.args])  # noqa: S606
    except OSError as error:
        say(f"cannot run {task.real}: {error.strerror}")
        os._exit(127)


def code_of(status: int) -> int:
    """The child's exit code; 137 for a kill, and for other signals we end by the same one."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0 and code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return 128 - code if code < 0 else code
