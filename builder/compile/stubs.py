"""Stubs in place of the programs that the gate governs, and in front of ninja.

A stub's text is part of sccache's keys, as the program itself would be: it holds canonical paths and the program's
size, nothing that differs between machines. Without the gate's environment it runs the program as it is.
"""

from __future__ import annotations

import compileall
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

from builder.store import Store, key_of

TOOLS = {"cicc": "nvvm/bin/cicc", "ptxas": "bin/ptxas", "cudafe++": "bin/cudafe++"}
"""Programs of a CUDA_HOME that take memory, and where they are in it."""

_GATE = Path(__file__).with_name("gate")


@dataclass(frozen=True, slots=True)
class Stub:
    """What stands in place of `program`: `size` is the program's, 0 where its bytes reach nothing."""

    tool: str
    program: str
    size: int = 0

    def text(self, root: str) -> str:
        """The script, for the toolchain at the canonical `root`."""
        lines = [
            "#!/bin/sh",
            f"# {self.tool} of {self.size} bytes, through the gate" if self.size else f"# {self.tool}",
            f"program={shlex.quote(self.program)}",
            '[ -n "$SPARK_GATE" ] || exec "$program" "$@"',
            f'exec {root}/python/bin/python3 -I -S {root}/links/gate {self.tool} "$program" "$@"',
        ]
        return "\n".join([*lines, ""])


def gated(links: Mapping[str, Path], stubs: Path) -> dict[str, Path]:
    """The links of a CUDA_HOME with stubs in place of `TOOLS`, each program beside its stub as `NAME-real`."""
    changed = dict(links)
    for tool, place in TOOLS.items():
        changed[f"{place}-real"] = links[place]
        changed[place] = stubs / tool
    return changed


def stub_folder(store: Store, root: Path, stubs: Mapping[str, Stub]) -> Path:
    """A folder of the store with these stubs, by name."""
    texts = {name: stub.text(str(root)) for name, stub in stubs.items()}

    def make(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)

    return store.tree(f"stubs-{key_of(texts)[:16]}", make)


def gate_folder(store: Store) -> Path:
    """A folder of the store that Python runs: the package `gate`, compiled, so that it starts in 15 ms."""
    sources = sorted(_GATE.glob("*.py"))

    def make(folder: Path) -> None:
        (folder / "gate").mkdir()
        for source in sources:
            shutil.copyfile(source, folder / "gate" / source.name)
        (folder / "gate" / "__main__.py").replace(folder / "__main__.py")
        compileall.compile_dir(folder, quiet=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)

    digest = key_of([sys.implementation.cache_tag, [source.read_text(encoding="utf-8") for source in sources]])
    return store.tree(f"gate-{digest[:16]}", make)
