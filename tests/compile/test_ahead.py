from pathlib import Path

import pytest

from builder.compile.ahead import audit, check, groups, left_out, told
from builder.errors import CompileError
from builder.recipe import load

ROOT = Path(__file__).parents[2]

LISTED = [
    "fp4_quantization_121",
    "xqa_input_bf16_kv_cache_bf16_page_size_16",
    "fp4_gemm_cutlass_sm120",
    "gemm",
    "new_one",
]


def test_every_module_of_the_list_is_built_or_left_out_for_a_reason_or_named() -> None:
    found = audit(LISTED, ["fp4_quantization_121", "xqa_of_our_own"])
    assert (found["listed"], found["built"], found["beside"]) == (5, ["fp4_quantization_121"], ["xqa_of_our_own"])
    assert {group["modules"]: group["count"] for group in found["left_out"]} == {
        "xqa_input_*": 1,
        "fp4_gemm_cutlass_sm120": 1,
        "*gemm*": 1,
    }
    assert found["unexplained"] == ["new_one"]


def test_people_are_told_the_counts_and_what_the_device_may_have_to_compile() -> None:
    text = "\n".join(told(audit(LISTED, ["fp4_quantization_121"])))
    assert "lists 5 modules: 1 are built, 0 more, 3 left out" in text
    assert "fp4_gemm_cutlass_sm120 (1)" in text


def test_a_module_that_nobody_has_judged_ends_the_build() -> None:
    with pytest.raises(CompileError, match="nobody has said whether to build new_one") as refused:
        check(audit(LISTED, ["fp4_quantization_121"]))
    assert "ahead.toml" in refused.value.remedy
    with pytest.raises(CompileError, match="new_0, new_1, new_2, new_3, new_4 and 2 more"):
        check(audit([f"new_{n}" for n in range(7)], []))
    check(audit(LISTED, ["fp4_quantization_121", "new_one"]))


@pytest.mark.parametrize("recipe", ["aeon7", "smoke"])
def test_a_recipe_that_is_narrowed_still_builds(recipe: str) -> None:
    for component in load(recipe, ROOT).package("flashinfer-jit-cache").components:
        check(audit([component], []))


def test_what_the_recipe_builds_is_not_called_left_out() -> None:
    built = load("aeon7", ROOT).package("flashinfer-jit-cache").components
    found = {group["modules"]: group["built"] for group in left_out(built)}
    assert not {"fp4_gemm_cutlass_sm120", "fused_moe_120"} & found.keys()
    assert (found["batch_prefill_*"], found["batch_decode_*"]) == (1, 0)
    assert {"fp4_gemm_cutlass_sm120", "fused_moe_120"} < {group["modules"] for group in left_out([])}


def test_each_group_has_a_reason_and_a_pattern_of_its_own() -> None:
    assert all(len(group.reason) > 15 for group in groups())
    assert len({group.modules for group in groups()}) == len(groups())
