"""What FlashInfer's own functions answer, load and list for compute capability 12.1, with and without the series.

Its modules import torch and tvm_ffi and compile at first use; here the functions run as written over a
device that is named and kernels that are only noted.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from tests.series.conftest import FileOf
from tests.series.extract import extract

pytestmark = pytest.mark.network

CUDA_12, CUDA_13 = "12.8", "13.0"


class Loaded(Exception):
    """A module was loaded: ends the function that asked for it."""


class Tensor:
    """What the checks look at: device, type and shape."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.device, self.dtype = shape, "cuda", "bfloat16"


def torch(cuda: str = CUDA_13) -> SimpleNamespace:
    kinds = ("bfloat16", "float16", "float32", "int16", "int32", "int64", "float8_e4m3fn")
    made = SimpleNamespace(version=SimpleNamespace(cuda=cuda), Tensor=Tensor, empty=lambda shape, **_: Tensor(*shape))
    made.__dict__.update({kind: kind for kind in kinds})
    return made


def utils(flashinfer: FileOf, device: tuple[int, int], cuda: str = CUDA_13) -> dict[str, Any]:
    """flashinfer/utils.py: what the device is, and what needs which."""
    names = (
        *("version_at_least", "is_sm120f_supported", "is_sm12x_supported"),
        *("supported_compute_capability", "backend_requirement", "BackendSupportedError"),
    )
    given = {"functools": functools, "inspect": inspect, "torch": torch(cuda)}
    return extract(
        flashinfer("flashinfer/utils.py"), *names, given=given | {"get_compute_capability": lambda _: device}
    )


# -- is_sm120f_supported -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "cuda", "right"),
    [((12, 0), CUDA_13, True), ((12, 1), CUDA_13, True), ((12, 1), CUDA_12, False), ((10, 0), CUDA_13, False)],
)
def test_code_of_the_family_runs_on_every_12x(
    which: str, flashinfer: FileOf, device: tuple[int, int], cuda: str, *, right: bool
) -> None:
    answer = utils(flashinfer, device, cuda)["is_sm120f_supported"](None)
    assert answer is (right and (which == "series" or device == (12, 0)))


# -- fp4_quantization --------------------------------------------------------------------------------


def loaded(flashinfer: FileOf, backend: str, ready: set[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The FP4 quantisation module that a device loads, when those in `ready` came compiled."""
    path = flashinfer("flashinfer/quantization/fp4_quantization.py")

    def generator(name: str) -> Callable[[], SimpleNamespace]:
        def load() -> None:
            raise Loaded(name)

        return lambda: SimpleNamespace(is_aot=name in ready, build_and_load=load)

    kinds = ("90", "100", "103", "110", "120", "120f", "121")
    given: dict[str, object] = {f"gen_fp4_quantization_sm{kind}_module": generator(kind) for kind in kinds}
    for name in ("flashinfer", "flashinfer.quantization"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    shared = ModuleType("flashinfer.utils")
    shared.__dict__["version_at_least"] = utils(flashinfer, (12, 1))["version_at_least"]
    monkeypatch.setitem(sys.modules, "flashinfer.utils", shared)
    given |= {"functools": functools, "torch": torch(), "__package__": "flashinfer.quantization"}
    function = extract(path, "get_fp4_quantization_module", given=given)["get_fp4_quantization_module"]
    with pytest.raises(Loaded) as caught:
        function(backend)
    return str(caught.value)


@pytest.mark.parametrize(
    ("backend", "ready", "right"),
    [
        ("121", {"121"}, "121"),
        ("121", {"120f", "121"}, "121"),
        ("121", set(), "121"),
        ("121", {"120f"}, "120f"),
        ("120", {"121"}, "120f"),
        ("120", {"120", "120f"}, "120f"),
        ("100", {"121"}, "100"),
    ],
)
def test_12_1_loads_the_module_that_is_built_for_it(
    which: str, flashinfer: FileOf, backend: str, ready: set[str], right: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = loaded(flashinfer, backend, ready, monkeypatch)
    assert found == ("120f" if which == "upstream" and backend == "121" else right)


# -- mm_bf16, bmm_bf16 -------------------------------------------------------------------------------


@dataclass
class Gemm:
    """mm_bf16 and bmm_bf16 on a device, and the backends that they asked for."""

    file: FileOf
    device: tuple[int, int]
    asked: list[list[str]] = field(default_factory=list)

    def call(self, name: str, *tensors: Tensor, backend: str) -> None:
        given = utils(self.file, self.device) | {
            "flashinfer_api": lambda function: function,
            "_check_cudnn_availability": lambda: None,
            "_get_cache_buf": lambda *_: None,
            "DEFAULT_WORKSPACE_SIZE": 0,
            "bf16_gemm_sm100": lambda *words: self.asked.append(words[-1]),
        }
        kinds = ("cudnn", "cutlass")
        helpers = [f"_{kind}_{name}_requirement" for kind in kinds] + [f"_heuristic_func_{name}"]
        if name == "mm_bf16":
            helpers.append("_tgv_gemm_requirement")
        names = ("_validate_bf16_output_dtype", *helpers, f"_check_{name}_problem_size", name)
        extract(self.file("flashinfer/gemm/gemm_base.py"), *names, given=given)[name](*tensors, backend=backend)


@pytest.mark.parametrize("device", [(12, 0), (12, 1)])
@pytest.mark.parametrize("backend", ["cudnn", "auto"])
@pytest.mark.parametrize(
    ("name", "tensors"), [("mm_bf16", (Tensor(4, 8), Tensor(8, 6))), ("bmm_bf16", (Tensor(2, 4, 8), Tensor(2, 8, 6)))]
)
def test_bf16_products_run_by_cudnn(
    which: str, flashinfer: FileOf, device: tuple[int, int], backend: str, name: str, tensors: tuple[Tensor, ...]
) -> None:
    gemm = Gemm(flashinfer, device)
    if which == "upstream":
        with pytest.raises(Exception, match=r"does not support backend|No suitable auto backends"):
            gemm.call(name, *tensors, backend=backend)
    else:
        gemm.call(name, *tensors, backend=backend)
    assert gemm.asked == ([] if which == "upstream" else [["cudnn"]])


def test_the_kernels_of_data_centre_blackwell_stay_refused_on_12_1(flashinfer: FileOf) -> None:
    for name, backend in (("mm_bf16", "cutlass"), ("mm_bf16", "tgv"), ("bmm_bf16", "cutlass")):
        tensors = (Tensor(4, 8), Tensor(8, 6)) if name == "mm_bf16" else (Tensor(2, 4, 8), Tensor(2, 8, 6))
        with pytest.raises(Exception, match="does not support backend"):
            Gemm(flashinfer, (12, 1)).call(name, *tensors, backend=backend)


# -- the ahead-of-time list --------------------------------------------------------------------------


def noted(name: str) -> Callable[..., SimpleNamespace]:
    """A generator that only notes what was asked of it."""
    return lambda *words, **more: SimpleNamespace(name=f"{name}{(*words, *more.items())}")


def ahead(flashinfer: FileOf, *capabilities: str) -> set[str]:
    """The modules that upstream's list holds for some capabilities."""
    path = flashinfer("flashinfer/aot.py")
    used = {node.id for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Name)}
    given: dict[str, object] = {name: noted(name) for name in used if name.startswith("gen_")}
    given |= {"gen_attention": lambda *_: [], "gen_xqa": lambda *_: []}
    given |= {"torch": torch(), "product": itertools.product, "Version": Version}
    given |= {"get_cuda_version": lambda: Version(CUDA_13), "act_func_def_str": {}}
    given |= extract(
        flashinfer("flashinfer/jit/rmsnorm_silu.py"),
        *("select_knobs", "_compute_default_knobs", "_estimate_ctas_per_row"),
        given={"_KNOB_LUT": {(64, 1560, "bf16"): (4, 1, 1, 2, 8)}},
    )
    given |= {"_SUPPORTED_C": [64], "_SUPPORTED_TOKENS": [1560]}
    function = extract(path, "gen_all_modules", given=given)["gen_all_modules"]
    asked: dict[str, object] = {
        name: [] if name.endswith("_") else False for name in inspect.signature(function).parameters
    }
    asked |= {"add_moe": True, "add_misc": True, "sm_capabilities": dict.fromkeys(capabilities, True)}
    specs = function(**asked)
    return {spec.name for spec in specs}


LATE = ("gen_mxfp8_quantization_sm100_module", "gen_trtllm_utils_module", "gen_selective_state_update_sm100_module")
TUNED = "gen_rmsnorm_silu_module(64, 'bf16', 4, 1, 8, 1, 2)"


@pytest.mark.parametrize("capabilities", [("sm121",), ("sm120", "sm120f"), ("sm120", "sm120f", "sm121")])
def test_what_12x_loads_is_on_its_list(which: str, flashinfer: FileOf, capabilities: tuple[str, ...]) -> None:
    found = ahead(flashinfer, *capabilities)
    kinds = {name.partition("(")[0] for name in found}
    assert {name for name in LATE if name in kinds} == (set(LATE) if which == "series" else set())
    assert (TUNED in found) is (which == "series")
    assert not {name for name in kinds if "sm90" in name or "trtllm_gen" in name}


def test_lists_for_other_architectures_stay_as_they_are(flashinfers: dict[str, FileOf]) -> None:
    for capabilities in (("sm90",), ("sm100", "sm100f"), ("sm103",), ()):
        assert ahead(flashinfers["series"], *capabilities) == ahead(flashinfers["upstream"], *capabilities)


def test_a_12_1_device_asks_for_the_sm100_form_of_the_state_update(flashinfer: FileOf) -> None:
    asked: list[str] = []

    def generator(name: str) -> Callable[..., SimpleNamespace]:
        return lambda *_: SimpleNamespace(build_and_load=lambda: asked.append(name))

    forms = ("", "_sm90", "_sm100")
    given: dict[str, object] = {f"gen_selective_state_update{form}_module": generator(form) for form in forms}
    path = flashinfer("flashinfer/mamba/selective_state_update.py")
    function = extract(path, "_get_module", given=given | {"functools": functools})["_get_module"]
    function(*"abcdefghij", 12)
    assert asked == ["_sm100"]


# -- the launchers of a mixture of experts -----------------------------------------------------------


def launchers(files: FileOf, device: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What upstream's generator, run whole but without its package, writes for the module of a device."""
    here = "flashinfer/jit/gemm/cutlass"
    folder = files(f"{here}/generate_kernels.py").parent
    files(f"{here}/cutlass_library.py")
    parents = ("moe", "moe.jit", "moe.jit.cpp_ext", "moe.jit.gemm", "moe.jit.gemm.cutlass")
    for name in parents:
        module = ModuleType(name)
        module.__path__ = [str(folder)] if name == parents[-1] else []
        module.__dict__["is_cuda_version_at_least"] = lambda _: True
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("cutlass_library", "generate_kernels"):
        monkeypatch.delitem(sys.modules, f"{parents[-1]}.{name}", raising=False)
    generator = importlib.import_module(f"{parents[-1]}.generate_kernels")
    generator.generate_gemm_operations(work, f"{device};{device}-real")
    return {str(path.relative_to(work)): path.read_bytes() for path in work.rglob("*.cu")}


@pytest.mark.parametrize("device", ["120", "100", "103", "89", "90"])
def test_hoppers_launchers_are_made_for_hopper_alone(
    flashinfers: dict[str, FileOf], device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: launchers(files, device, tmp_path / name, monkeypatch) for name, files in flashinfers.items()}
    hopper = {path for path in made["upstream"] if "_sm90_" in path}
    assert hopper
    left_out = set() if device == "90" else hopper
    assert made["series"] == {path: text for path, text in made["upstream"].items() if path not in left_out}
    if device == "120":
        assert (len(made["upstream"]), len(made["series"])) == (62, 14)


def test_no_source_of_the_module_names_what_is_left_out(flashinfer: FileOf) -> None:
    sources = flashinfer("flashinfer/jit/fused_moe.py").read_text()
    assert "moe_gemm" in sources
    assert "fpA_intB" not in sources


# -- the runners of a mixture of experts -------------------------------------------------------------

CUTLASS_BACKEND = "csrc/fused_moe/cutlass_backend"
NEVER_MADE = {("float", "float"), ("half", "uint8_t"), ("__nv_bfloat16", "uint8_t")}


def runners(path: Path, *templates: str) -> set[tuple[str, str]]:
    """Types of activations and weights that a source names in these templates, comments left out."""
    code = re.sub(r"//.*", "", path.read_text())
    found = re.findall(rf"(?:{'|'.join(templates)})<\s*([\w:]+),\s*([\w:]+)", code)
    return {(act, weight) for act, weight in found if not act.startswith("Type")}


def test_every_runner_that_is_compiled_can_be_made(which: str, flashinfer: FileOf) -> None:
    compiled = runners(flashinfer(f"{CUTLASS_BACKEND}/cutlass_fused_moe_instantiation.cu"), "CutlassMoeFCRunner")
    binding = flashinfer(f"{CUTLASS_BACKEND}/flashinfer_cutlass_fused_moe_binding.cu")
    made = runners(binding, "CutlassMoeFCRunner", "switch_output_type")
    assert ("__nv_fp4_e2m1", "__nv_fp4_e2m1") in made <= compiled
    assert compiled - made == (set() if which == "series" else NEVER_MADE)


def test_no_source_is_compiled_for_a_runner_that_is_not(flashinfers: dict[str, FileOf], tmp_path: Path) -> None:
    def sources(files: FileOf) -> list[str]:
        given = {
            "jit_env": SimpleNamespace(FLASHINFER_CSRC_DIR=Path(), FLASHINFER_GEN_SRC_DIR=tmp_path),
            "generate_gemm_operations": lambda *_: None,
            "gen_jit_spec": lambda _, listed, **__: [path.stem for path in listed],
        }
        path = files("flashinfer/jit/fused_moe.py")
        listed: list[str] = extract(path, "gen_cutlass_fused_moe_module", given=given)["gen_cutlass_fused_moe_module"](
            [], "120"
        )
        return listed

    upstream, series = (sources(flashinfers[which]) for which in ("upstream", "series"))
    names = ("fp32_fp32", "fp16_uint8", "bf16_uint8")
    assert [name for name in upstream if name not in series] == [f"moe_gemm_kernels_{name}" for name in names]
    assert len(series) == len(upstream) - len(names)


# -- the branches of its dispatch -------------------------------------------------------------------------

DISPATCH = "csrc/nv_internal/tensorrt_llm/kernels/cutlass_kernels/moe_gemm/moe_gemm_template_dispatch.h"
ONLY_12X = "COMPILE_BLACKWELL_SM120_TMA_GROUPED_GEMMS"


def words(text: str) -> list[str]:
    """Code as a compiler sees it, but for comments: line breaks are spaces."""
    return re.sub(r"//.*", "", text).split()


def parted(text: str) -> tuple[str, str, str]:
    """What stands before, within and after the condition on the macro of 12.x."""
    before, _, rest = text.partition(f"#ifndef {ONLY_12X}")
    within, end, after = rest.partition("\n  } else\n#endif\n")
    assert end, "no condition"
    return before, within.partition("\n")[2] + "\n  } else\n", after


def test_other_modules_dispatch_as_they_did(flashinfers: dict[str, FileOf]) -> None:
    upstream = flashinfers["upstream"](DISPATCH).read_text()
    assert words("".join(parted(flashinfers["series"](DISPATCH).read_text()))) == words(upstream)


def test_the_module_of_12x_has_no_branch_for_what_is_older(flashinfers: dict[str, FileOf]) -> None:
    before, older, after = parted(flashinfers["series"](DISPATCH).read_text())
    assert re.findall(r"if \(sm_ (?:>=|<) \d+[^)]*\)", older) == [
        "if (sm_ >= 75 && sm_ < 80)",
        "if (sm_ >= 80 && sm_ < 90)",
    ]
    assert "arch::Sm75" in older
    assert "arch::Sm75" not in before + after
    assert after.startswith("  if (sm_ >= 90) {\n")
    assert {"arch::Sm80", "arch::Sm89"} <= set(re.findall(r"arch::Sm8\d", after))  # 12.x runs these: FP8, small batches
    assert len(re.findall(r"^#if", older, re.MULTILINE)) == len(re.findall(r"^#endif", older, re.MULTILINE))


@pytest.mark.parametrize("device", ["120", "103", "100", "90", "89"])
def test_the_macro_is_of_the_module_of_12x_alone(flashinfer: FileOf, device: str) -> None:
    given = {
        "gen_cutlass_fused_moe_module": lambda flags, *_: flags,
        "current_compilation_context": SimpleNamespace(get_nvcc_flags_list=lambda **_: []),
        "is_cuda_version_at_least": lambda _: True,
        "sm90a_nvcc_flags": [],
        "sm89_nvcc_flags": [],
        "JitSpec": object,
    }
    name = f"gen_cutlass_fused_moe_sm{device}_module"
    flags = extract(flashinfer("flashinfer/jit/fused_moe.py"), name, given=given)[name]()
    assert "-DENABLE_FP8" in flags
    assert (f"-D{ONLY_12X}" in flags) == (device == "120")
