from builder.compile.ahead import audit, groups, told

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
    assert "neither built nor explained in ahead.toml: new_one" in text


def test_each_group_has_a_reason_and_a_pattern_of_its_own() -> None:
    assert all(len(group.reason) > 15 for group in groups())
    assert len({group.modules for group in groups()}) == len(groups())
