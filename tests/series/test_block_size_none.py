"""The three places that look for the smallest block of the KV-cache groups, upstream's own functions."""

# ruff: noqa: ANN401  what vLLM gives has no types here

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace as Bag
from typing import Any

import pytest

from tests.series.extract import extract

pytestmark = pytest.mark.network

SITES = ("report", "engine", "runner")


def cache(tree: Path, sizes: tuple[int | None, ...], blocks: int = 64) -> Any:
    """Upstream's KVCacheConfig over groups of these block sizes."""
    try:
        made = extract(tree / "vllm/v1/kv_cache_interface.py", "KVCacheConfig.min_block_size", given={})[
            "KVCacheConfig"
        ]()
    except LookupError:
        made = Bag()
    made.kv_cache_groups = [Bag(kv_cache_spec=Bag(block_size=size)) for size in sizes]
    made.num_blocks = blocks
    return made


def report(tree: Path, sizes: tuple[int | None, ...]) -> int:
    """The number of tokens that the KV-cache report names."""
    said: list[str] = []
    logger = Bag(info=lambda *_: None, info_once=lambda text, *args: said.append(text % args))
    given = {"logger": logger, "get_max_concurrency_for_kv_cache_config": lambda *_: 1.0}
    function = extract(tree / "vllm/v1/core/kv_cache_utils.py", "_report_kv_cache_config", given=given)
    config = Bag(parallel_config=_alone(), model_config=Bag(max_model_len=4096))
    function["_report_kv_cache_config"](config, cache(tree, sizes))
    return int(said[0].split(": ")[1].removesuffix(" tokens").replace(",", "")) // (64 // len(sizes))


def engine(tree: Path, sizes: tuple[int | None, ...]) -> int:
    """The block size that the engine core leaves in the cache config."""
    whole = cache(tree, sizes)
    given = {
        "time": Bag(time=lambda: 0.0),
        "envs": Bag(VLLM_ELASTIC_EP_SCALE_UP_LAUNCH=False),
        "logger": _quiet(),
        "instrument": lambda **_: lambda function: function,
        "get_kv_cache_configs": lambda *_: [whole],
        "generate_scheduler_kv_cache_config": lambda configs: configs[0],
    }
    core = extract(tree / "vllm/v1/engine/core.py", "EngineCore._initialize_kv_caches", given=given)["EngineCore"]()
    core.model_executor = Bag(
        get_kv_cache_specs=lambda: [{}], determine_available_memory=lambda: [0], initialize_from_config=lambda _: None
    )
    config = Bag(
        cache_config=Bag(block_size=16, num_gpu_blocks=0),
        model_config=Bag(max_model_len=4096),
        compilation_config=Bag(compilation_time=0.0, encoder_compilation_time=0.0),
        validate_block_size=lambda: None,
    )
    core._initialize_kv_caches(config)
    return int(config.cache_config.block_size)


def runner(tree: Path, sizes: tuple[int | None, ...]) -> int:
    """The block size behind the runner's number of KV tokens."""
    capturer = Bag(init_buffer=lambda **_: None)
    given = {"logger": _quiet(), "RoutedExpertsCapturer": Bag(create=lambda: capturer)}
    name = "GPUModelRunner.init_routed_experts_capturer"
    made = extract(tree / "vllm/v1/worker/gpu_model_runner.py", name, given=given)["GPUModelRunner"]()
    made.model_config = Bag(enable_return_routed_experts=True)
    made.kv_cache_config, made.max_model_len = cache(tree, sizes), 4096
    made.vllm_config, made.scheduler_config = Bag(parallel_config=_alone()), Bag(max_num_batched_tokens=8)
    made._get_attention_kv_cache_gid, made._bind_routed_experts_capturer = lambda: 0, lambda _: None
    made.init_routed_experts_capturer()
    return int(made.max_num_kv_tokens) // (64 // len(sizes))


def _quiet() -> Bag:
    return Bag(info=lambda *_: None, info_once=lambda *_: None)


def _alone() -> Bag:
    return Bag(decode_context_parallel_size=1, prefill_context_parallel_size=1)


CALLS: dict[str, Callable[[Path, tuple[int | None, ...]], int]] = {"report": report, "engine": engine, "runner": runner}


@pytest.mark.parametrize("site", SITES)
def test_groups_that_all_have_a_size_give_the_smallest(tree: Path, site: str) -> None:
    assert CALLS[site](tree, (544, 16, 32, 544)) == 16


@pytest.mark.parametrize("site", SITES)
def test_a_group_without_a_size_sets_no_bound(tree: Path, site: str, is_patched: bool) -> None:
    if is_patched:
        assert CALLS[site](tree, (None, 544, 272, None)) == 272
    else:
        with pytest.raises(TypeError, match="not supported between instances of"):
            CALLS[site](tree, (None, 544, 272, None))


@pytest.mark.parametrize(("site", "whole"), [("report", 4096), ("engine", 16), ("runner", 4096)])
def test_where_no_group_has_a_size_a_block_is_a_sequence_and_the_config_stays(
    tree: Path, site: str, whole: int, is_patched: bool
) -> None:
    if is_patched:
        assert CALLS[site](tree, (None, None)) == whole
    else:
        with pytest.raises(TypeError, match="not supported between instances of"):
            CALLS[site](tree, (None, None))
