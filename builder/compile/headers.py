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
    found = sources(python_headers(), sysconfig.get_config_var("MULTIARCH") or "")
    content = {name: sha256_of(path) for name, path in found.items()}

    def make(tree: Path) -> None:
        for name, path in found.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, tree / name)

    return context.store.tree(f"headers-{key_of(content)[:16]}", make)


def sources(folder: Path, multiarch: str) -> dict[str, Path]:
    """Each header's place by its name; `multiarch` is Debian's name of a machine, x86_64-linux-gnu."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.h")) if path.is_file()}
    apart = folder.parent / multiarch / folder.name / "pyconfig.h"
    return found | ({apart.name: apart} if multiarch and apart.is_file() else {})
