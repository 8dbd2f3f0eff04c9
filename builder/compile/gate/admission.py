"""Who may start, who must pause: pure decisions over steps, bytes and seconds."""

from __future__ import annotations

MB = 1 << 20
UNKNOWN_SECONDS = 60.0
"""What a step is taken to last that nobody has measured."""


class Step:
    """A step that waits or runs. Bytes and seconds; times are of the epoch.

    `asked` is its place in the queue: when it counts as having asked.
    """

    __slots__ = ("alone", "asked", "child", "expected", "pid", "rss", "running", "seconds", "start")

    def __init__(  # noqa: PLR0913  a plain record: dataclasses would double the time to start
        self,
        *,
        asked: float,
        expected: int,
        seconds: float = UNKNOWN_SECONDS,
        running: bool = False,
        alone: bool = False,
        start: float = 0.0,
        rss: int = 0,
        child: int = 0,
        pid: int = 0,
    ) -> None:
        self.asked = asked
        self.expected = expected
        self.seconds = seconds
        self.running = running
        self.alone = alone
        self.start = start
        self.rss = rss
        self.child = child
        self.pid = pid

    def grows(self) -> int:
        """What it may still take."""
        return max(0, self.expected - self.rss)

    def left(self, now: float) -> float:
        """Seconds until it should end."""
        return max(1.0, self.start + self.seconds - now)

    def text(self) -> bytes:
        """The ticket's content."""
        values = (self.asked, self.expected, self.seconds, int(self.running), int(self.alone), self.start, self.child)
        return " ".join(str(value) for value in values).encode()


def parsed(text: bytes) -> Step:
    """The step that a ticket tells of; raises ValueError for a torn one."""
    asked, expected, seconds, running, alone, start, child = text.split()
    return Step(
        asked=float(asked),
        expected=int(expected),
        seconds=float(seconds),
        running=running == b"1",
        alone=alone == b"1",
        start=float(start),
        child=int(child),
    )


def admits(me: Step, others: list[Step], free: int, jobs: int, now: float) -> bool:
    """Whether `me`, which waits, may start now; `free` is what is available less a reserve.

    The oldest that waits is never starved: a younger one passes it only if it ends before the older one could
    start, or leaves it room. With nothing running the oldest starts, whatever it is expected to take.
    """
    running = [step for step in others if step.running]
    older = sorted((s for s in others if not s.running and s.asked < me.asked), key=lambda step: step.asked)
    if not running:
        return not older
    if me.alone or any(step.alone for step in running):
        return False
    room = free - sum(step.grows() for step in running)
    slots = jobs - len(running)
    held: Step | None = None
    for step in older:
        if not step.alone and step.expected <= room and slots > 0:
            room, slots = room - step.expected, slots - 1
        else:
            held = held or step
    if slots <= 0 or me.expected > room:
        return False
    return held is None or _passes(me, held, running, room, now)


def _passes(me: Step, held: Step, running: list[Step], room: int, now: float) -> bool:
    """Whether `me` delays `held`, which waits for memory, by nothing."""
    wait = 0.0
    for step in sorted(running, key=lambda each: each.left(now)):
        if not held.alone and held.expected <= room:
            break
        wait, room = step.left(now), room + max(step.expected, step.rss)
    return me.seconds <= wait or (not held.alone and me.expected + held.expected <= room)


def brake(me: Step, running: list[Step], available: int, low: int, *, paused: bool) -> str:
    """`go`, `pause` or `yield`, for a step that runs beside others; the oldest always goes.

    Below `low` bytes all but the oldest pause, and go on when twice that is free; below half of it the youngest
    yields: it is ended, and starts again when there is room.
    """
    if all(me.start <= step.start for step in running):
        return "go"
    if available < low // 2 and all(me.start > step.start for step in running):
        return "yield"
    return "pause" if available < (2 * low if paused else low) else "go"


def reserve(total: int) -> int:
    """Bytes that admission leaves alone: 12 % of the memory there is, at most 1.5 GiB."""
    return min(total * 12 // 100, 1536 * MB)


def low_mark(total: int) -> int:
    """Bytes below which steps pause: 8 % of the memory there is, at most 1 GiB."""
    return min(total * 8 // 100, 1024 * MB)
