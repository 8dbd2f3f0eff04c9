"""Upstream's own CMake, generators and headers, asked for 12.1a with and without the series."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.network, pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")]

_LIST = r'cuda_archs_loose_intersection\({name} "[^"]*" "\${{CUDA_ARCHS}}"\)'


def cmake(tree: Path, tmp_path: Path, lines: list[str], env: dict[str, str] | None = None) -> str:
    script = tmp_path / "ask.cmake"
    script.write_text("\n".join(["cmake_minimum_required(VERSION 3.25)", f"include({tree}/cmake/utils.cmake)", *lines]))
    done = subprocess.run(
        ["cmake", "-P", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], **(env or {})},
    )
    return done.stderr.strip()


def archs(tree: Path, tmp_path: Path, name: str) -> str:
    """What upstream's CMakeLists gives a list for TORCH_CUDA_ARCH_LIST=12.1a and CUDA 13."""
    text = (tree / "CMakeLists.txt").read_text()
    supported = re.search(r'set\(CUDA_SUPPORTED_ARCHS "[^"]*"\)', text)
    chosen = re.search(_LIST.format(name=name), text)
    assert supported is not None
    lines = ['set(CUDA_ARCHS "12.1a")', supported[0]]
    lines.append('cuda_archs_loose_intersection(CUDA_ARCHS "${CUDA_SUPPORTED_ARCHS}" "${CUDA_ARCHS}")')
    lines += [chosen[0]] if chosen else []
    return cmake(tree, tmp_path, [*lines, f'message("${{{name}}}")'])


@pytest.mark.parametrize("name", ["CUDA_ARCHS", "FP4_ARCHS"])
def test_121a_is_built_as_121a(tree: Path, tmp_path: Path, name: str, *, is_patched: bool) -> None:
    assert archs(tree, tmp_path, name) == (
        "12.1a" if is_patched else {"CUDA_ARCHS": "12.0", "FP4_ARCHS": "12.0f"}[name]
    )


@pytest.mark.parametrize(
    "name", ["MARLIN_ARCHS", "MARLIN_BF16_ARCHS", "MARLIN_OTHER_ARCHS", "MARLIN_MOE_ARCHS", "HADACORE_ARCHS"]
)
def test_kernels_without_a_path_of_their_own_run_natively(
    tree: Path, tmp_path: Path, name: str, *, is_patched: bool
) -> None:
    upstream = "9.0+PTX" if name in {"MARLIN_BF16_ARCHS", "HADACORE_ARCHS"} else "8.0+PTX"
    assert archs(tree, tmp_path, name) == ("12.0+PTX" if is_patched else upstream)


def test_the_tcgen05_attention_kernel_is_not_built_for_12x(tree: Path, tmp_path: Path, *, is_patched: bool) -> None:
    assert archs(tree, tmp_path, "MLA_ARCHS") == ("" if is_patched else "12.0f")


def test_no_kernel_is_built_for_89_that_a_12x_device_never_calls(
    tree: Path, tmp_path: Path, *, is_patched: bool
) -> None:
    text = (tree / "CMakeLists.txt").read_text()
    end = text.index("  if (SCALED_MM_2X_ARCHS)")
    start = text.rindex("# (Build 8.9 for FP8)", 0, end)
    lines = [
        'set(CUDA_ARCHS "12.1a")',
        'set(SCALED_MM_3X_ARCHS "12.1a")',
        text[start:end],
        'message("${SCALED_MM_2X_ARCHS}")',
    ]
    assert cmake(tree, tmp_path, lines) == ("" if is_patched else "8.9+PTX")


@pytest.mark.parametrize(("arch", "runs"), [("1200", True), ("1210", None), ("900", False)])
def test_the_fp8_gemm_guard_admits_the_family(tree: Path, arch: str, *, runs: bool | None, is_patched: bool) -> None:
    """The preprocessor's view of the guard: a call of the kernel, or a trap."""
    text = (tree / "csrc/cutlass_extensions/common.hpp").read_text()
    struct = text[text.index("struct enable_sm120_only") : text.index("struct enable_sm120_family")]
    body = "\n".join(line for line in struct.splitlines() if not line.startswith("//"))
    done = subprocess.run(
        ["gcc", "-E", "-P", "-x", "c++", f"-D__CUDA_ARCH__={arch}", "-"],
        input=body,
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = is_patched if runs is None else runs
    assert ("Kernel::operator()" in done.stdout) == wanted
    assert ("trap" in done.stdout) != wanted


@pytest.mark.parametrize("folder", ["csrc/quantization/marlin", "csrc/moe/marlin_moe_wna16"])
def test_fp8_activation_kernels_are_generated_for_121a(
    tree: Path, tmp_path: Path, folder: str, *, is_patched: bool
) -> None:
    work = tmp_path / "generator"
    work.mkdir()
    shutil.copy(tree / folder / "generate_kernels.py", work)
    subprocess.run([sys.executable, work / "generate_kernels.py", "12.1a"], cwd=work, check=True, capture_output=True)
    assert bool(list(work.glob("sm80_kernel_*.cu")))
    assert bool(list(work.glob("sm89_kernel_*.cu"))) == is_patched


def test_a_12_1_device_may_run_them(tree: Path, *, is_patched: bool) -> None:
    check = re.compile(r"minor_capability == 89 \|\|\s+major_capability (?:== 12|\* 10 \+ minor_capability == 120),")
    for file in ("csrc/quantization/marlin/marlin.cu", "csrc/moe/marlin_moe_wna16/ops.cu"):
        found = check.search((tree / file).read_text())
        assert found is not None
        assert found[0].endswith("major_capability == 12,") == is_patched


@pytest.mark.parametrize(
    ("chosen", "project", "wanted"),
    [
        ("_C;_moe_C", "_deep_gemm_C", "FALSE"),
        ("_C;_deep_gemm_C", "_deep_gemm_C", "TRUE"),
        (None, "_deep_gemm_C", "TRUE"),
    ],
)
def test_external_projects_are_fetched_only_for_what_is_chosen(
    tree: Path, tmp_path: Path, chosen: str | None, project: str, wanted: str, *, is_patched: bool
) -> None:
    text = (tree / "CMakeLists.txt").read_text()
    if not is_patched:
        assert "VLLM_BUILD_COMPONENTS" not in text
        return
    function = text[text.index("function(external_project_wanted") : text.index("endfunction()") + len("endfunction()")]
    lines = [function, f"external_project_wanted(_WANT other {project})", 'message("${_WANT}")']
    env = {} if chosen is None else {"VLLM_BUILD_COMPONENTS": chosen}
    assert cmake(tree, tmp_path, lines, env) == wanted


@pytest.mark.parametrize(
    ("chosen", "left"), [("_C;cumem_allocator", ["vllm.cumem_allocator", "vllm._C"]), ("_c", None)]
)
def test_setup_builds_only_chosen_extensions_and_refuses_unknown_ones(
    tree: Path, chosen: str, left: list[str] | None, *, is_patched: bool
) -> None:
    text = (tree / "setup.py").read_text()
    if not is_patched:
        assert "VLLM_BUILD_COMPONENTS" not in text
        return
    block = text[text.index('if chosen := os.getenv("VLLM_BUILD_COMPONENTS")') : text.index("if not ext_modules:")]
    code = (
        "import os, types\n"
        "ext_modules = [types.SimpleNamespace(name=n) for n in ('vllm.cumem_allocator', 'vllm._C', 'vllm._moe_C')]\n"
        f"{block}\nprint([ext.name for ext in ext_modules])"
    )
    env = {"VLLM_BUILD_COMPONENTS": chosen}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout.strip() == str(left)) if left else ("names ['_c']" in done.stderr)
