"""Python's C headers in one folder, fit for another machine's compiler.

Debian and Ubuntu keep a machine's own pyconfig.h apart; the one in its place includes the file of the machine that is
compiled for, which a cross compiler does not find. What it holds is the same on all our targets (64-bit longs,
little-endian words), so the interpreter's own serves.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from builder.context import Context
from builder.store import key_of, sha256_of


def python_headers() -> Path:
    """The folder of Python.h of the interpreter that runs us."""
    return Path(sysconfig.get_path("include"))


def header_tree(context: Context) -> Path:
    """A copy of them in the store, with the pyconfig.h that was made for this interpreter."""
    folder, own = python_headers(), Path(sysconfig.get_config_h_filename())
    files = sorted(path for path in folder.rglob("*.h") if path.is_file())
    content = {str(path.relative_to(folder)): sha256_of(path) for path in files} | {own.name: sha256_of(own)}

    def make(tree: Path) -> None:
        for name in content:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(own if name == own.name else folder / name, tree / name)

    return context.store.tree(f"headers-{key_of(content)[:16]}", make)
