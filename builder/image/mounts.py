"""What podman or buildah leave mounted when they are ended: storage that stays mounted can be neither removed nor used.

Their own clean-up forgets the mount of the storage on itself, and knows nothing of a run that was killed. So the
kernel's table is asked: at the end of each build, and at the start of the next for those whose end never came.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from builder.context import Context

_TABLE: Final = Path("/proc/self/mountinfo")
_POINT: Final = 4
_ESCAPED = re.compile(r"\\([0-7]{3})")


def mounted_below(folder: Path, table: str) -> list[str]:
    """The mount points at the folder and below, the last mounted first; `table` is in the form of mountinfo(5)."""
    rows = (line.split(" ") for line in table.splitlines())
    points = [_ESCAPED.sub(_plain, row[_POINT]) for row in rows if len(row) > _POINT]
    return [point for point in reversed(points) if Path(point).is_relative_to(folder)]


def unmount(folder: Path, context: Context) -> None:
    """Unmount all of it; what cannot be stays, and the folder with it."""
    for point in mounted_below(folder.resolve(), _TABLE.read_text(encoding="utf-8", errors="surrogateescape")):
        context.run(["umount", point], log=context.logs / "umount.log", check=False)


def unmount_abandoned(context: Context) -> None:
    """Unmount and remove what killed builds have left in the store."""
    for part in context.store.abandoned():
        unmount(part, context)
    context.store.sweep()


def _plain(escaped: re.Match[str]) -> str:
    return chr(int(escaped[1], 8))
