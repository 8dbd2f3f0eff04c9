"""Storage that a killed build has left mounted is unmounted by the next one, and removed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from builder.context import Context
from builder.image import mounts
from builder.image.mounts import mounted_below, unmount_abandoned
from builder.run import Completed

TABLE = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
40 21 8:1 /s/trees/.part-x/root/overlay /s/trees/.part-x/root/overlay rw - ext4 /dev/sda1 rw
41 40 0:50 / /s/trees/.part-x/root/overlay/1\\0402/merged rw - overlay overlay rw
42 21 0:51 / /s/trees/.part-xy/root/overlay rw - overlay overlay rw
"""


def old_part(context: Context) -> Path:
    part = context.store.root / "trees" / ".part-x"
    (part / "storage" / "root" / "overlay").mkdir(parents=True)
    os.utime(part, (time.time() - 100,) * 2)
    return part


def test_the_innermost_is_unmounted_first_and_other_builds_are_left_alone() -> None:
    inner, outer = "/s/trees/.part-x/root/overlay/1 2/merged", "/s/trees/.part-x/root/overlay"
    assert mounted_below(Path("/s/trees/.part-x"), TABLE) == [inner, outer]
    assert mounted_below(Path("/s/trees/.part"), TABLE) == []


def test_the_next_build_unmounts_what_a_killed_one_left(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, told = old_part(context), list[Sequence[str | Path]]()
    living = context.store.root / "trees" / ".part-new"
    living.mkdir()
    table = tmp_path / "mountinfo"
    lines = (f"1 1 0:1 / {place}/storage/root/overlay rw - x x rw\n" for place in (part, living))
    table.write_text("".join(lines))
    monkeypatch.setattr(mounts, "_TABLE", table)

    def door(argv: Sequence[str | Path], **_: object) -> Completed:
        told.append(argv)
        return Completed(tuple(map(str, argv)), 0, "")

    unmount_abandoned(replace(context, run=door))
    assert told == [["umount", f"{part}/storage/root/overlay"]]
    assert not part.exists()
    assert living.exists()


def test_a_real_mount_goes_and_its_folder_with_it(context: Context) -> None:
    part = old_part(context)
    place = part / "storage" / "root" / "overlay"
    done = subprocess.run(["mount", "--bind", str(place), str(place)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"this user may mount nothing: {done.stderr.strip()}")
    os.utime(part, (time.time() - 100,) * 2)
    context.store.sweep()
    assert place.exists(), "as long as it is mounted it cannot be removed"
    os.utime(part, (time.time() - 100,) * 2)
    unmount_abandoned(context)
    assert not part.exists()
