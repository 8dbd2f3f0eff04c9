"""A finished layout into its place: at every moment a whole image stands there, the last good one or the new one."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import Final

_CWD: Final = -100
_EXCHANGE: Final = 2
_CANNOT: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})


def place(made: Path, out: Path) -> None:
    """Move the folder `made` to `out`, over what stands there. Raises OSError; the caller holds a lock on the place."""
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = (out.with_name(f".{out.name}.{word}") for word in ("new", "old"))
    if old.exists() and not out.exists():
        old.rename(out)  # the last run was killed between two renames
    for folder in (fresh, old):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.move(made, fresh)
    if not out.exists():
        fresh.rename(out)
    elif _exchanged(fresh, out):
        shutil.rmtree(fresh, ignore_errors=True)
    else:
        out.rename(old)
        fresh.rename(out)
        shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Let two folders change places in one step, which Python has no call for; False where the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_CWD, os.fsencode(one), _CWD, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(other))
