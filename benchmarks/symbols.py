"""How long the symbol closure of an object takes against the pinned torch and CUDA wheels, cold and warm.

python benchmarks/symbols.py WHEEL OBJECT RECIPE STORE
(for one: vllm-0.20.0-….whl vllm/_C.abi3.so aeon7 ~/.cache/spark-wheels)

The pinned wheels must be in the store; its symbol tables are not used and not touched.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from builder.context import Context
from builder.inspect import inspect_path
from builder.inspect.facts import ObjectFacts
from builder.model import LockedFile
from builder.recipe import load
from builder.store import Store
from builder.verify.check import pinned
from builder.verify.providers import shelf_of
from builder.verify.symbols import symbol_faults

ROOT = Path(__file__).parent.parent


def closure(found: ObjectFacts, files: tuple[LockedFile, ...], context: Context) -> dict[str, float]:
    """Wall and CPU seconds of one closure, and what it left open."""
    wall, cpu = time.perf_counter(), time.process_time()
    faults = list(symbol_faults([found], shelf_of(files, context)))
    taken = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {name: round(value, 3) for name, value in taken.items()} | {
        "names": len(found.elf.undefined),
        "open": len(faults),
    }


def main(wheel: str, member: str, recipe: str, store: str) -> None:
    """Measure once with no table kept and three times with all."""
    files = pinned(load(recipe, ROOT), ROOT)
    found = next(one for one in inspect_path(Path(wheel), level="arch").objects if one.path == member)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "blobs").symlink_to(Path(store).expanduser().resolve() / "blobs")
        context = Context(Store(Path(folder)), Path(folder) / "logs")
        runs = [closure(found, files, context) for _ in range(4)]
    print(json.dumps({"object": member, "cold": runs[0], "warm": runs[1:]}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
