"""A place to build in again and again: checkouts, stores and a canonical folder of its own, and edits of sources.

Nothing of the caller's is touched. Downloads and unpacked toolchains are linked from the caller's store, never copied.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builder.git import Entry, Objects
from builder.recipe import load

HERE = Path(__file__).parents[1]
TINY = """\
extends = "aeon7"
packages = ["flashinfer-python", "flashinfer-jit-cache", "vllm"]

[[package]]
name = "flashinfer-jit-cache"
components = ["fp4_quantization_121", {modules}]

[[package]]
name = "vllm"
components = ["cumem_allocator"]

[[verify.archs]]
package = "vllm"
object = "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"
archs = ["8.0+PTX"]

[[verify.instructions]]
package = "flashinfer-jit-cache"
object = "*/fp4_quantization_121.so"
kernel = "*quantize_with_block_size*BlockScaleQuantizationTypeE[01]E*"
needs = "F2FP.E2M1"

[[verify.exceptions]]
package = "vllm"
object = "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"
rule = "jit"
reason = "taken from the official wheel, sm_80 code and PTX: compiled on the device at first use"
"""
_MODULE = (
    "xqa_input_bf16_kv_cache_u8_output_bf16_page_size_{page}_head_dim_256_head_group_ratio_{ratio}"
    "_use_sliding_window_False_use_spec_dec_False_spec_q_seq_len_1"
)
_SHAPES = ((16, 4), (32, 4), (64, 4), (16, 8), (32, 8), (64, 8))
_HEADER = """\
Description: an edit for a measurement
Bug: none known
Origin: spark-wheels
Applies-To: {package} {version}
Drop-When: the measurement is over
---
"""
_LINKED = ("blobs", "git", "trees")
_MADE = ("native-*", ".part-*")


@dataclass(frozen=True, slots=True)
class Built:
    """One run of the builder: wall seconds and CPU seconds, interpreter start included, and its document.

    `cpu` counts what the builder waited for, which the compilers under the cache's server are not.
    """

    seconds: float
    cpu: float
    document: dict[str, Any]

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each wheel by its file's name."""
        return {wheel["file"]: wheel["sha256"] for wheel in self.document["wheels"]}

    @property
    def hits(self) -> tuple[int, int]:
        """Hits and misses of the compiler cache."""
        counts = self.document["counts"]
        return counts.get("cache hits", 0), counts.get("cache misses", 0)


@dataclass(frozen=True, slots=True)
class Lab:
    """A folder with all that belongs to one measurement; `root` is the canonical folder."""

    folder: Path
    root: Path
    base: Path
    jobs: str = "auto"
    env: Mapping[str, str] = field(default_factory=dict)

    def store(self, name: str) -> Path:
        """A store with the caller's downloads, sources and toolchain, and nothing that was ever built."""
        place = self.folder / name
        place.mkdir()
        for part in _LINKED:
            subprocess.run(["cp", "-al", self.base / part, place / part], check=True)
        for pattern in _MADE:
            for tree in (place / "trees").glob(pattern):
                shutil.rmtree(tree)
        return place

    def checkout(self, name: str, modules: int = 2) -> Path:
        """A copy of this checkout at another path, with a recipe `tiny` of that many decode modules beside."""
        place = self.folder / name
        skip = shutil.ignore_patterns("__pycache__", ".*", "out", "*.egg-info")
        for part in ("builder", "recipes", "patches"):
            shutil.copytree(HERE / part, place / part, ignore=skip)
        chosen = ", ".join(f'"{_MODULE.format(page=page, ratio=ratio)}"' for page, ratio in _SHAPES[:modules])
        (place / "recipes/tiny.toml").write_text(TINY.format(modules=chosen))
        return place

    def forget_work(self) -> None:
        """Empty the canonical folder: what a fresh machine has."""
        shutil.rmtree(self.root, ignore_errors=True)

    def command(self, store: Path, recipe: str, *more: str) -> list[str]:
        """The builder's command line."""
        words = [sys.executable, "-m", "builder", "build", f"recipe={recipe}", f"store={store}", f"jobs={self.jobs}"]
        return [*words, *more, "--json"]

    def settings(self, checkout: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment in which the checkout's own builder runs."""
        ours = {"PYTHONPATH": str(checkout), "SPARK_WHEELS_ROOT": str(self.root)}
        return {**os.environ, **ours, **self.env, **(more or {})}

    def build(
        self,
        checkout: Path,
        store: Path,
        recipe: str,
        *more: str,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> Built:
        """Run the builder to its end, `before` in front of its command; RuntimeError with what it said if it fails."""
        started, before_cpu = time.monotonic(), _children()
        argv, settings = [*before, *self.command(store, recipe, *more)], self.settings(checkout, env)
        done = subprocess.run(argv, cwd=checkout, env=settings, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return Built(time.monotonic() - started, _children() - before_cpu, json.loads(done.stdout))

    def edit(self, checkout: Path, store: Path, path: str, change: Callable[[str], str], package: str = "vllm") -> None:
        """Change one of upstream's files by one more patch at the end of the series, pins included."""
        recipe = load("aeon7", checkout).package(package)
        objects = Objects(store / "git" / f"{package}.git")
        entry = objects.entry(recipe.result_tree, path)
        assert entry is not None, path
        before = objects.read(entry.oid).decode()
        after = change(before)
        oid = objects.write(after.encode())
        tree = objects.edit(recipe.result_tree, {path: Entry(entry.mode, oid)})
        folder = recipe.patches[-1].partition("/")[0]
        name = f"{folder}/{900 + len(recipe.patches):04}-edit.patch"
        diff = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
        head = _HEADER.format(package=package, version=recipe.version)
        index = f"diff --git a/{path} b/{path}\nindex {entry.oid}..{oid} {entry.mode:o}\n"
        (checkout / "patches" / name).write_text(head + index + "".join(diff))
        file = checkout / "recipes/aeon7.toml"
        text = file.read_text().replace(recipe.result_tree, tree)
        last = re.escape(recipe.patches[-1])
        file.write_text(re.sub(rf'("{last}")(,?\n?)', rf'\1, "{name}"\2', text, count=1))


@contextmanager
def laboratory(options: Mapping[str, str]) -> Iterator[Lab]:
    """A lab that is gone afterwards. `store=` is the caller's store, `root=` the canonical folder, `jobs=` as ever."""
    from builder.commands import _store

    base = Path(_store(options).root)
    with tempfile.TemporaryDirectory(prefix="spark-wheels-lab-", dir=options.get("folder")) as folder:
        root = Path(options.get("root", f"{folder}/root"))
        lab = Lab(Path(folder), root, base, options.get("jobs", "auto"))
        try:
            yield lab
        finally:
            lab.forget_work()


def _children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def options_of(argv: list[str]) -> dict[str, str]:
    """`key=value` words."""
    return dict(word.split("=", 1) for word in argv)


def say(text: str) -> None:
    """One line of the result."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
