"""Text-only Qwen3.5 through vLLM's own configs, classes, weight loading and KV-cache planning (see probes.py)."""

# ruff: noqa: ANN401  what vLLM gives has no types here

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow]

Probes = dict[str, dict[str, Any]]
KINDS = ("dense", "moe")
CLASSES = {
    "dense": ("Qwen3_5ForCausalLM", "Qwen3_5TextConfig"),
    "moe": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig"),
}
UNKNOWN = ("does not recognize this architecture", "are not supported for now")


def value(probes: Probes, name: str, is_patched: bool) -> Any:
    """What a probe saw on the patched tree; on upstream's, that the checkpoint is not even known."""
    found = probes[name]
    if is_patched:
        assert "value" in found, found["trace"]
        return found["value"]
    assert any(text in found["message"] for text in UNKNOWN), found
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_the_config_is_hybrid_text(probes: Probes, kind: str, is_patched: bool) -> None:
    found = value(probes, f"config {kind}", is_patched)
    assert found is None or found == {
        "architecture": CLASSES[kind][0],
        "config_class": CLASSES[kind][1],
        "is_hybrid": True,
        "has_inner_state": True,
        "is_multimodal": False,
        "uses_mrope": True,
        "attention_layers": 1,
        "linear_layers": 3,
        "mamba_block_size": 128,
        "ssm_dtype": "float32",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_prefix_caching_aligns_states_with_blocks(probes: Probes, kind: str, is_patched: bool) -> None:
    found = value(probes, f"prefix caching {kind}", is_patched)
    assert found is None or (found["mode"] == "align" and found["mamba_block_size"])


@pytest.mark.parametrize(("kind", "mlp"), [("dense", "Qwen2MoeMLP"), ("moe", "Qwen3NextSparseMoeBlock")])
def test_the_mtp_head_of_a_text_only_checkpoint_constructs(
    probes: Probes, kind: str, mlp: str, is_patched: bool
) -> None:
    found = value(probes, f"draft {kind}", is_patched)
    architecture = {"dense": "Qwen3_5MTP", "moe": "Qwen3_5MoeMTP"}[kind]
    assert found is None or found == {"architecture": architecture, "mlp": mlp, "method": "mtp"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", ["model.", "model.language_model."])
def test_every_weight_finds_its_place_by_either_name(probes: Probes, kind: str, prefix: str, is_patched: bool) -> None:
    found = value(probes, f"construct {kind}", is_patched)
    if found is not None:
        assert found["weights"][prefix]["unloaded"] == found["weights"][prefix]["zero"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_tells_the_state_that_its_layers_hold(probes: Probes, kind: str, is_patched: bool) -> None:
    found = value(probes, f"construct {kind}", is_patched)
    if found is not None:
        state = found["state"]
        assert (state["layers"], state["copies"]) == (3, 2)
        assert state["of_layers"] == [state["told"]] == [[[[3, 64], [4, 8, 8]], ["torch.bfloat16", "torch.float32"]]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_plans_one_page_size_for_states_and_attention(probes: Probes, kind: str, is_patched: bool) -> None:
    found = value(probes, f"construct {kind}", is_patched)
    if found is not None:
        cache = found["cache"]
        assert cache["groups"] == ["FullAttentionSpec", "MambaSpec", "MambaSpec", "MambaSpec"]
        assert cache["page_sizes"] == 1
        assert cache["blocks"] > 0


def test_a_profiling_pass_gives_logits_of_the_right_shape(probes: Probes, is_patched: bool) -> None:
    found = value(probes, "construct dense", is_patched)
    if found is not None:
        assert found["profile"].get("value", {}).get("shape") == [5, 128], found["profile"]


def test_a_registry_line_alone_resolves_a_class_that_cannot_run(probes: Probes, is_patched: bool) -> None:
    found = probes["merely registered"]["value"]
    assert found["is_hybrid"] is is_patched
    assert found["ssm_dtype"] == ("float32" if is_patched else "auto")
    assert ("value" in found["plan"]) is is_patched
    if not is_patched:
        assert "assert mamba_block_size is not None" in found["plan"]["trace"]
