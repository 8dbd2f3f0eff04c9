"""What memory is free: the machine's, and what every cgroup around us still allows."""

from __future__ import annotations

import os


class Memory:
    """What new memory may come from: the machine, and every cgroup around us that has a limit (versions 1 and 2)."""

    def __init__(self, proc: str = "/proc") -> None:
        self._meminfo = f"{proc}/meminfo"
        self._groups = groups("memory", proc)

    def now(self) -> tuple[int, int]:
        """Bytes available now, and the bytes there are in all."""
        facts = _fields(read(self._meminfo))
        found = [(facts.get("MemAvailable", 0) * 1024, facts.get("MemTotal", 0) * 1024)]
        for folder, version in self._groups:
            limits, used, total = _V2 if version == "2" else _V1
            numbers = [_number(read(f"{folder}/{name}")) for name in limits]
            limit = min((number for number in numbers if 0 < number < 1 << 60), default=0)
            if limit:
                stat = _fields(read(f"{folder}/memory.stat"))
                cache = stat.get(f"{total}inactive_file", 0) + stat.get(f"{total}active_file", 0) // 2
                found.append((max(0, limit - _number(read(f"{folder}/{used}")) + cache), limit))
        return min(found)[0], min(total for _, total in found)


_V1 = (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_")
_V2 = (("memory.max", "memory.high"), "memory.current", "")
"""Limits, use, and what stands before the statistics' names. Above memory.high nothing is killed, but all but stops."""


def groups(controller: str, proc: str = "/proc") -> list[tuple[str, str]]:
    """The folder of our cgroup of that controller and those around it, the nearest first, each with its version."""
    ours = {}
    for line in read(f"{proc}/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        ours["1" if controller in controllers.split(",") else "2" if not controllers else ""] = path
    found: list[tuple[str, str]] = []
    for line in read(f"{proc}/self/mountinfo").splitlines():
        head, _, tail = line.partition(" - ")
        kind, options = tail.partition(" ")[0], tail.rpartition(" ")[2].split(",")
        version = "2" if kind == "cgroup2" else "1" if kind == "cgroup" and controller in options else ""
        if version and version in ours:
            root, mount = head.split()[3:5]
            path = ours[version].removeprefix(root.rstrip("/")) if ours[version].startswith(root) else ""
            found += [(place, version) for place in _upward(mount, path)]
    return found


def _upward(mount: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def read(path: str) -> str:
    """The first 64 KiB of a small file; empty when it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(handle, 1 << 16).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def _fields(text: str) -> dict[str, int]:
    pairs = (line.replace(":", " ").split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) > 1 and pair[1].isdigit()}


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0


def resident(pid: int) -> int:
    """Bytes of a process in memory; 0 when it is gone."""
    fields = read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0
