"""The folder of tickets: who waits, who runs."""

from __future__ import annotations

import fcntl
import os

from .admission import Step, parsed
from .memory import resident


class Queue:
    """The folder of tickets. Every decision is made under its lock."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        self.folder = folder
        self._lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._ticket = -1
        self._name = ""

    def __enter__(self) -> Queue:  # noqa: PYI034  typing takes too long to import
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def join(self, step: Step) -> None:
        """Take a ticket. The program that is run inherits it."""
        self._name = f"{step.asked:017.6f}-{os.getpid()}"
        with self:
            self._ticket = os.open(f"{self.folder}/{self._name}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._ticket, fcntl.LOCK_EX)
            self.tell(step)
        os.set_inheritable(self._ticket, True)

    def tell(self, step: Step) -> None:
        """Write what others must know of us."""
        text = step.text()
        os.pwrite(self._ticket, text.ljust(120), 0)

    def leave(self) -> None:
        """Give the ticket back."""
        _remove(f"{self.folder}/{self._name}")

    def others(self) -> list[Step]:
        """The living tickets but ours; those that nobody holds are removed. Call it under the lock."""
        names = (name for name in os.listdir(self.folder) if name not in {"lock", self._name})  # noqa: PTH208
        return [step for step in map(self._living, names) if step]

    def _living(self, name: str) -> Step | None:
        path = f"{self.folder}/{name}"
        try:
            handle = os.open(path, os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _with_rss(os.read(handle, 200))
        else:
            _remove(path)  # its holder may have left between our two looks, and taken it along
            return None
        finally:
            os.close(handle)


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108
    except FileNotFoundError:  # contextlib takes too long to import
        return


def _with_rss(text: bytes) -> Step | None:
    try:
        step = parsed(text)
    except ValueError:
        return None
    step.rss = resident(step.child) if step.child else 0
    return step
