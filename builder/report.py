"""What people see while it runs: steps, progress, timings; folded on GitHub, silent with --json.

People's text goes to stderr, so that stdout holds one JSON document or nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from builder.errors import BuilderError, Interrupted


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `1 h 12 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: float) -> str:
    """`812 B`, `3.4 kB`, `235.8 MB` (powers of 1000, as package indexes print them)."""
    for unit in ("B", "kB", "MB"):
        if count < (999.5 if unit == "B" else 999.95):
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def counted(count: int, noun: str, nouns: str = "") -> str:
    """`1 patch`, `3 patches`: the number with the noun that goes with it (`nouns`, else with an s)."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


@dataclass(slots=True)
class Report:
    """Tells one run's story to a person; keeps times and counts for the summary. Threads may share it."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False
    github: bool = field(default_factory=lambda: os.environ.get("GITHUB_ACTIONS") == "true")
    timings: dict[str, float] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    _last_progress: dict[str, float] = field(default_factory=dict)
    _open_line: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def line(self, text: str) -> None:
        """One line for people."""
        if self.quiet:
            return
        with self._lock:
            erased = "\r\033[K" if self._open_line else ""
            self._open_line = False
            self.stream.write(f"{erased}{text}\n")
            self.stream.flush()

    def note(self, text: str) -> None:
        """A detail of the running step."""
        self.line(f"    {text}")

    def warn(self, text: str) -> None:
        """Something to look at that stops nothing."""
        self.line(f"::warning::{text}" if self.github else f"  ! {text}")

    def add(self, counter: str, count: int) -> None:
        """Count something for the summary: bytes fetched, cache hits."""
        with self._lock:
            self.counters[counter] = self.counters.get(counter, 0) + count

    @contextmanager
    def step(self, title: str, *, inside: bool = False) -> Iterator[None]:
        """A titled step; its time is said when it ends, and it is a fold on GitHub.

        One `inside` another stays in its fold, and names itself when it ends: others may run at the same time.
        """
        fold = self.github and not inside
        self.line(f"::group::{title}" if fold else f"==> {title}")
        start = time.monotonic()
        ending = "stopped"
        try:
            yield
            ending = "done"
        except BuilderError as error:
            ending = "stopped" if isinstance(error, Interrupted) else "failed"
            raise
        finally:
            self._ended(title, time.monotonic() - start, f"{title}: {ending}" if inside else ending)
            if fold:
                self.line("::endgroup::")

    def _ended(self, title: str, taken: float, said: str) -> None:
        with self._lock:
            self.timings[title] = self.timings.get(title, 0.0) + taken
        self.note(f"{said} in {duration(taken)}")

    def progress(self, done: float, total: float, text: str, remaining: float | None = None, *, of: str = "") -> None:
        """`done` of `total`, in place on a terminal, at most every 10 s elsewhere for each thing `of` which it is."""
        live = self.stream.isatty()
        now = time.monotonic()
        if self.quiet or (now - self._last_progress.get(of, 0.0) < (0.1 if live else 10) and done < total):
            return
        self._last_progress[of] = now
        left = "" if remaining is None else f", about {duration(remaining)} left"
        message = f"    [{done / total:4.0%}] {text}{left}" if total else f"    {text}"
        if not live:
            self.line(message)
            return
        with self._lock:
            self.stream.write(f"\r\033[K{message[: _width()]}")
            self.stream.flush()
            self._open_line = True


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns - 1
    except OSError:
        return 100
