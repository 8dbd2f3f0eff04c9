"""vLLM: its own setup.py and CMake, for chosen components, without GitHub."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from builder.compile.costs import units_of
from builder.compile.cross import cmake_arguments, cmake_toolchain
from builder.compile.cutlass import cutlass_folder
from builder.compile.families import FamilyCheck, families_for
from builder.compile.job import Job
from builder.compile.pep517 import build_wheel
from builder.compile.units import UnitWatch
from builder.compile.workplace import external_folder, workplace
from builder.model import PatchedTree
from builder.store import atomic_write


def build(job: Job, trees: Mapping[str, PatchedTree]) -> Path:
    """The raw wheel as upstream makes it, in the job's output folder. Raises CompileError."""
    context = job.context
    cutlass = cutlass_folder(trees, context)
    externals = {each.external.variable: external_folder(each, context) for each in job.externals}
    with workplace(trees[job.package.name], job.toolchain, context) as source:
        _forget_outputs(source)
        check = FamilyCheck(families_for("vllm", job.package.components, job.first_arch), job.first_arch)
        return build_wheel(
            source,
            job.out,
            job.toolchain,
            context,
            env={**_environment(job, source, cutlass), **externals},
            watch=UnitWatch(context.report, "vllm", check.line, _expected(job)),
            options=["--py-limited-api=cp38"],
        )


def _environment(job: Job, source: Path, cutlass: Path) -> dict[str, str]:
    toolchain = job.toolchain
    return {
        "VLLM_TARGET_DEVICE": "cuda",
        "VLLM_VERSION_OVERRIDE": job.version,
        "VLLM_BUILD_COMPONENTS": ";".join(_components(job)),
        "VLLM_CUTLASS_SRC_DIR": str(cutlass),
        "TORCH_CUDA_ARCH_LIST": str(job.first_arch),
        "MAX_JOBS": str(job.jobs),
        "NVCC_THREADS": "1",
        "CMAKE_BUILD_TYPE": "Release",
        "FETCHCONTENT_BASE_DIR": str(source / ".deps"),
        "CMAKE_ARGS": " ".join(_cmake(job, source, cutlass)),
        "_PYTHON_HOST_PLATFORM": f"linux-{toolchain.machine}",
        **job.cache,
    }


def _components(job: Job) -> list[str]:
    """The recipe's extensions, and those that an external source brings."""
    brought = [name for each in job.externals for name in each.external.components]
    return [*job.package.components, *brought]


def _expected(job: Job) -> dict[str, float]:
    return {cost.unit: cost.seconds for cost in units_of("vllm", job.package.components)}


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


def _forget_outputs(source: Path) -> None:
    """What setuptools collected last time must not leak into this wheel; objects stay."""
    for folder in [*source.glob("build/lib*"), *source.glob("build/bdist*"), *source.glob("*.egg-info")]:
        shutil.rmtree(folder)
