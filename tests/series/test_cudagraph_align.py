"""Upstream's own choice of capture sizes, with and without the series."""

# ruff: noqa: ANN401  what vLLM gives has no types here

from __future__ import annotations

import enum
import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.series.extract import extract

pytestmark = pytest.mark.network

MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
SIZES = [1, 2, 4, 8, 16, 24, 32, 40]


@pytest.fixture
def config(tree: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    backend = types.ModuleType("vllm.v1.attention.backend")
    given = {"enum": enum, "Enum": enum.Enum}
    found = extract(tree / "vllm/v1/attention/backend.py", "AttentionCGSupport", given=given)
    backend.__dict__["AttentionCGSupport"] = found["AttentionCGSupport"]
    monkeypatch.setitem(sys.modules, "vllm.v1.attention.backend", backend)
    return extract(
        tree / "vllm/config/compilation.py",
        "CompilationMode",
        "CUDAGraphMode",
        "CompilationConfig.resolve_cudagraph_mode_and_sizes",
        "CompilationConfig.adjust_cudagraph_sizes_for_spec_decode",
        "CompilationConfig.splitting_ops_contain_attention",
        given=given
        | {
            "logger": logging.getLogger("vllm"),
            "round_up": lambda x, y: -(-x // y) * y,
            "AttentionCGSupport": backend.__dict__["AttentionCGSupport"],
        },
    )


def resolved(space: dict[str, Any], mode: str, tokens: int, *, biggest: int = 40, support: str = "ALWAYS") -> Any:
    config = space["CompilationConfig"]()
    config.cudagraph_mode = space["CUDAGraphMode"][mode]
    config.mode = space["CompilationMode"].VLLM_COMPILE
    config.splitting_ops, config._attention_ops = ["vllm::unified_attention"], ["vllm::unified_attention"]
    config.use_inductor_graph_partition = False
    config.pass_config = types.SimpleNamespace(enable_sp=False)
    config.cudagraph_capture_sizes = [size for size in SIZES if size <= biggest]
    config.max_cudagraph_capture_size = biggest
    config.resolve_cudagraph_mode_and_sizes(space["AttentionCGSupport"][support], "Backend", 1 + tokens)
    return config


@pytest.mark.parametrize("tokens", [1, 2, 3, 5, 15])
@pytest.mark.parametrize("mode", MODES)
def test_sizes_are_whole_decode_steps_in_every_mode_but_none(
    config: dict[str, Any], mode: str, tokens: int, is_patched: bool
) -> None:
    got = resolved(config, mode, tokens).cudagraph_capture_sizes
    if mode == "NONE" or (mode == "PIECEWISE" and not is_patched):
        assert got == SIZES
        assert any(size % (1 + tokens) for size in got)
    else:
        assert got == sorted({-(-size // (1 + tokens)) * (1 + tokens) for size in SIZES} & set(range(41)))


@pytest.mark.parametrize("mode", MODES)
def test_without_speculation_sizes_stay(config: dict[str, Any], mode: str) -> None:
    assert resolved(config, mode, 0).cudagraph_capture_sizes == SIZES


def test_a_full_mode_that_falls_back_to_piecewise_is_aligned_too(config: dict[str, Any], is_patched: bool) -> None:
    got = resolved(config, "FULL_AND_PIECEWISE", 2, support="UNIFORM_SINGLE_TOKEN_DECODE")
    assert got.cudagraph_mode.name == "PIECEWISE"
    assert all(size % 3 == 0 for size in got.cudagraph_capture_sizes) is is_patched
    assert got.max_cudagraph_capture_size == (33 if is_patched else 40)  # 40 would be 42: too large


def test_a_step_that_no_graph_can_hold_is_said(config: dict[str, Any], is_patched: bool) -> None:
    if not is_patched:
        assert resolved(config, "PIECEWISE", 15, biggest=8).cudagraph_capture_sizes == [1, 2, 4, 8]
        return
    with pytest.raises(ValueError, match="No valid cudagraph sizes after rounding to multiple of 16"):
        resolved(config, "PIECEWISE", 15, biggest=8)
