"""vLLM: its own setup.py and CMake, for chosen components, without GitHub."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from builder.compile.collected import keep_collected
from builder.compile.costs import units_of
from builder.compile.cross import cmake_arguments, cmake_toolchain
from builder.compile.cutlass import cutlass_folder, cutlass_tree
from builder.compile.families import FamilyCheck, families_for
from builder.compile.forecast import Forecast
from builder.compile.governed import STEPS
from builder.compile.job import Job
from builder.compile.native import Door, Rule, native_key
from builder.compile.pep517 import build_wheel
from builder.compile.shard import Share
from builder.compile.shared import Shared, compile_units
from builder.compile.trace import recorded
from builder.compile.units import UnitWatch
from builder.compile.workplace import external_folder, workplace
from builder.errors import CompileError
from builder.git import Entry, Objects
from builder.model import PatchedTree
from builder.store import atomic_write

_RULE = Rule(
    apart=("vllm/*.py", "vllm/*.json", "tests/*", "docs/*", "benchmarks/*", "examples/*", "docker/*", ".*", "*.md"),
    unless=("vllm/third_party/*", "vllm/vllm_flash_attn/*"),
    varies=("-DVLLM_PYTHON_PATH=", "-DCMAKE_JOB_POOLS"),
)
"""setup.py reads vllm/envs.py too; what it takes from there reaches cmake as arguments, which are compared."""


def build(job: Job, trees: Mapping[str, PatchedTree]) -> Path:
    """The raw wheel as upstream makes it, in the job's output folder. Raises CompileError."""
    with _build(job, trees, share=False) as made:
        raw = made.run()
        made.door.keep(made.files)
        return raw


def compile_share(job: Job, trees: Mapping[str, PatchedTree], share: Share) -> Shared:
    """Configure as for a wheel, then compile that share of the units. Raises CompileError."""
    with _build(job, trees, share=True) as made:
        try:
            made.run()
        except CompileError:
            if made.door.left is None:
                raise
        if made.door.left is None:
            return Shared()
        env = {**job.toolchain.environment(), **made.env}
        watch = UnitWatch(job.context.report, "vllm", forecast=_forecast(job))
        return compile_units(job, share, made.door.left, made.source, env=env, watch=watch)


@dataclass(frozen=True, slots=True)
class _Build:
    """Upstream's build, ready to run: its checkout, the tree's files, the environment, the door before cmake."""

    job: Job
    source: Path
    files: Mapping[str, Entry]
    env: Mapping[str, str]
    door: Door

    def run(self) -> Path:
        """The raw wheel; its members are stored, because they are packed anew afterwards."""
        job, context = self.job, self.job.context
        check = FamilyCheck(families_for("vllm", job.package.components, job.first_arch), job.first_arch)
        temp = f"build/temp.linux-{job.toolchain.machine}-{sys.implementation.cache_tag}"
        with recorded(self.source / temp, "vllm", self.source, context.logs):
            return build_wheel(
                self.source,
                job.out,
                job.toolchain,
                context,
                env=self.env,
                watch=UnitWatch(context.report, "vllm", check.line, _forecast(job)),
                options=["--py-limited-api=cp38", "--compression=stored"],
            )


@contextmanager
def _build(job: Job, trees: Mapping[str, PatchedTree], *, share: bool) -> Iterator[_Build]:
    context, tree = job.context, trees[job.package.name]
    with workplace(tree, job.toolchain, context) as source:  # which holds what only vLLM's units read besides, too
        cutlass = cutlass_folder(trees, context)
        externals = {each.external.variable: external_folder(each, context) for each in job.externals}
        objects = Objects(tree.git_dir)
        files = objects.files(tree.tree)
        settings = {**_environment(job, source, cutlass), **externals}
        key = native_key(files, _RULE, [settings, *_reached(job, trees)])
        keep_collected(source, objects, files, key)
        door = Door(context.store, key, job.out.parent / "door")
        if door.kept and not share:
            context.report.note("vllm: nothing that is compiled has changed: its extensions are kept")
        moving = {"VLLM_VERSION_OVERRIDE": job.version, "MAX_JOBS": str(job.jobs), **job.cache}
        env = {**settings, **moving, **door.environment(job.toolchain, _RULE, share=share)}
        yield _Build(job, source, files, env, door)


def _reached(job: Job, trees: Mapping[str, PatchedTree]) -> list[object]:
    """What reaches the extensions beside vLLM's own files and the environment."""
    externals, toolchain = [each.tree for each in job.externals], job.toolchain
    return [toolchain.key, toolchain.layout, externals, cutlass_tree(trees), cmake_toolchain(toolchain)]


def _environment(job: Job, source: Path, cutlass: Path) -> dict[str, str]:
    toolchain = job.toolchain
    return {
        "VLLM_TARGET_DEVICE": "cuda",
        "VLLM_BUILD_COMPONENTS": ";".join(_components(job)),
        "VLLM_CUTLASS_SRC_DIR": str(cutlass),
        "TORCH_CUDA_ARCH_LIST": str(job.first_arch),
        "NVCC_THREADS": "1",
        "CMAKE_BUILD_TYPE": "Release",
        "FETCHCONTENT_BASE_DIR": str(source / ".deps"),
        "CMAKE_ARGS": " ".join(_cmake(job, source, cutlass)),
        "_PYTHON_HOST_PLATFORM": f"linux-{toolchain.machine}",
    }


def _components(job: Job) -> list[str]:
    """The recipe's extensions, and those that an external source brings."""
    brought = [name for each in job.externals for name in each.external.components]
    return [*job.package.components, *brought]


def _forecast(job: Job) -> Forecast:
    expected = {cost.unit: cost.seconds for cost in units_of("vllm", job.package.components)}
    return Forecast(expected, job.context.logs / STEPS)


def _cmake(job: Job, source: Path, cutlass: Path) -> list[str]:
    variables = {
        "CUTLASS_INCLUDE_DIR": str(cutlass / "include"),
        "CUTLASS_TOOLS_UTIL_INCLUDE_DIR": str(cutlass / "tools/util/include"),
        **cmake_arguments(job.toolchain),
    }
    if job.toolchain.compilers.cross:
        file = source.parent / "vllm-toolchain.cmake"
        atomic_write(file, cmake_toolchain(job.toolchain).encode())
        variables["CMAKE_TOOLCHAIN_FILE"] = str(file)
    return [f"-D{name}={value}" for name, value in variables.items()]
