"""What setuptools collected for the last wheel, kept where it is the tree's own: only what changed is copied again.

setuptools adds to the folder of a build and copies what is newer; a file that is gone from the tree would stay in every
wheel, and one that an older file replaced would not be seen. So what is not the tree's by content goes before.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from builder.git import Entry, Objects
from builder.store import atomic_write, key_of


def keep_collected(source: Path, objects: Objects, files: Mapping[str, Entry], key: str) -> None:
    """Leave in `source`'s build folder only files that the next wheel will hold, too.

    `key` is of all that decides which of the tree's `files` go into a wheel, but for which files there are. Compiled
    and generated files go, as they are no files of the tree.
    """
    for folder in [*source.glob("build/bdist*"), *source.glob("*.egg-info")]:
        shutil.rmtree(folder)
    mark, wanted = source.parent / f"{source.name}.collected", key_of([key, sorted(files)])
    known = mark.is_file() and mark.read_text(encoding="utf-8") == wanted
    for folder in source.glob("build/lib*"):
        if known:
            _prune(folder, objects, files)
        else:
            shutil.rmtree(folder)
    atomic_write(mark, wanted.encode())


def _prune(folder: Path, objects: Objects, files: Mapping[str, Entry]) -> None:
    for path in folder.rglob("*"):
        if path.is_symlink() or path.is_file():
            entry = files.get(path.relative_to(folder).as_posix())
            if entry is not None and objects.stands(path, entry):
                os.utime(path, follow_symlinks=False)  # setuptools leaves it full seconds, older than its original
            else:
                path.unlink()
