"""sccache's own job tokens, given back by a step that waits."""

from __future__ import annotations

import os


class Tokens:
    """sccache's own job tokens: a step that waits gives its token back, so that others may work meanwhile.

    The server holds a token for each program it runs and lends its pipe to them (as GNU make does).
    """

    def __init__(self, flags: str) -> None:
        self._pipe: tuple[int, int] | None = None
        self._lent = False
        for word in flags.split():
            numbers = word.removeprefix("--jobserver-auth=").split(",")
            if word.startswith("--jobserver-auth=") and len(numbers) == 2 and all(n.isdigit() for n in numbers):
                self._pipe = (int(numbers[0]), int(numbers[1]))

    def give(self) -> None:
        """Give ours back, once."""
        if self._pipe and not self._lent and self._is_pipe():
            os.write(self._pipe[1], b"+")
            self._lent = True

    def take(self) -> None:
        """Take one again if there is one: how many run is the gate's matter, not the tokens'."""
        if self._pipe and self._lent:
            handle = os.open(f"/proc/self/fd/{self._pipe[0]}", os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.read(handle, 1)
            except BlockingIOError:
                pass
            finally:
                os.close(handle)
            self._lent = False

    def _is_pipe(self) -> bool:
        try:
            return all(os.fstat(end).st_mode & 0o170000 == 0o010000 for end in self._pipe or ())
        except OSError:
            return False
