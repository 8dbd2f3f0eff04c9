"""Runs in an interpreter with torch and vLLM's requirements, over one tree: asks vLLM's own code, writes what it said.

The platform is vLLM's CPU platform, without compiled kernels: configs, construction, weights and
KV-cache planning are the real ones; a forward pass runs as vLLM's memory profiling does it, without
the attention and recurrent kernels, so that only its shape says something.
"""

# ruff: noqa: ANN401  what vLLM gives has no types here
# mypy: disable-error-code="import-not-found,misc"

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace as Bag
from typing import Any

import torch

ROPE = {
    "rope_type": "default",
    "rope_theta": 1e4,
    "partial_rotary_factor": 0.25,
    "mrope_section": [2, 1, 1],
    "mrope_interleaved": True,
}
TEXT: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 256,
    "full_attention_interval": 4,
    "dtype": "bfloat16",
    "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1,
    "rope_parameters": ROPE,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
KINDS = {
    "dense": ("Qwen3_5ForCausalLM", "qwen3_5_text", TEXT),
    "moe": ("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", TEXT | EXPERTS),
}
Seen = dict[str, Any]


def checkpoint(kind: str) -> str:
    """A folder with the config.json of a tiny text-only checkpoint."""
    architecture, model_type, config = KINDS[kind]
    folder = Path(tempfile.mkdtemp())
    named = config | {"architectures": [architecture], "model_type": model_type}
    (folder / "config.json").write_text(json.dumps(named))
    return str(folder)


def engine_config(kind: str, **options: Any) -> Any:
    """The VllmConfig that `vllm serve` would make."""
    from vllm.engine.arg_utils import EngineArgs

    model = checkpoint(kind)
    given = {"skip_tokenizer_init": True, "load_format": "dummy", "max_model_len": 128, "enforce_eager": True}
    return EngineArgs(model=model, tokenizer=model, **(given | options)).create_engine_config()


def config_of(kind: str) -> Seen:
    found = engine_config(kind)
    model, cache = found.model_config, found.cache_config
    parallel = found.parallel_config
    return {
        "architecture": model.architecture,
        "config_class": type(model.hf_config).__name__,
        "is_hybrid": model.is_hybrid,
        "has_inner_state": model.has_inner_state,
        "is_multimodal": model.is_multimodal_model,
        "uses_mrope": model.uses_mrope,
        "attention_layers": model.get_num_layers_by_block_type(parallel, "attention"),
        "linear_layers": model.get_num_layers_by_block_type(parallel, "linear_attention"),
        "mamba_block_size": cache.mamba_block_size,
        "ssm_dtype": cache.mamba_ssm_cache_dtype,
    }


def prefix_caching_of(kind: str) -> Seen:
    cache = engine_config(kind, enable_prefix_caching=True).cache_config
    return {"mode": cache.mamba_cache_mode, "mamba_block_size": cache.mamba_block_size, "block_size": cache.block_size}


def draft_of(kind: str) -> Seen:
    found = engine_config(kind, speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    draft = found.speculative_config.draft_model_config
    with built(found, draft, "Qwen3_5MTP" if kind == "dense" else "Qwen3_5MoeMTP", "qwen3_5_mtp") as model:
        mlp = type(model.model.layers[0].mlp).__name__
    return {"architecture": draft.architecture, "mlp": mlp, "method": found.speculative_config.method}


@contextmanager
def built(config: Any, model_config: Any, name: str, module: str) -> Any:
    """The model of a config, constructed as vLLM's loader does, on one process."""
    import importlib
    from dataclasses import replace

    from vllm.config import set_current_vllm_config
    from vllm.utils.torch_utils import set_default_torch_dtype

    own = replace(config, model_config=model_config) if model_config is not config.model_config else config
    own.compilation_config.static_forward_context.clear()
    model_class = getattr(importlib.import_module(f"vllm.model_executor.models.{module}"), name)
    with set_current_vllm_config(own), set_default_torch_dtype(model_config.dtype):
        alone()
        yield model_class(vllm_config=own)


def alone() -> None:
    """vLLM's process groups, for one process."""
    from vllm.distributed import parallel_state

    if not torch.distributed.is_initialized():
        where = f"file://{tempfile.mktemp()}"  # noqa: S306  torch makes the file
        parallel_state.init_distributed_environment(1, 0, where, 0, "gloo")
    parallel_state.destroy_model_parallel()  # the groups of a mixture of experts are others
    parallel_state.initialize_model_parallel()


def construct(kind: str) -> Seen:
    """Construct, load weights by both kinds of names, profile, and plan the KV cache."""
    config = engine_config(kind)
    with built(config, config.model_config, KINDS[kind][0], "qwen3_5") as model:
        return {
            "weights": {prefix: loaded(model, kind, prefix) for prefix in ("model.", "model.language_model.")},
            "state": states(model, config),
            "cache": planned(config),
            "profile": seen(lambda: profiled(model, config)),
        }


def merely_registered(kind: str) -> Seen:
    """What a line in the registry alone gives: add it by hand where it is not there, and plan the KV cache."""
    from vllm.model_executor.models.registry import ModelRegistry
    from vllm.transformers_utils import config as configs

    architecture, model_type, _ = KINDS[kind]
    kept, known = dict(ModelRegistry.models), dict(configs._CONFIG_REGISTRY)
    ModelRegistry.register_model(architecture, f"vllm.model_executor.models.qwen3_5:{architecture}")
    configs._CONFIG_REGISTRY[model_type] = {"dense": "Qwen3_5TextConfig", "moe": "Qwen3_5MoeTextConfig"}[kind]
    try:
        config = engine_config(kind)
        with built(config, config.model_config, architecture, "qwen3_5"):
            hybrid = {
                "is_hybrid": config.model_config.is_hybrid,
                "ssm_dtype": config.cache_config.mamba_ssm_cache_dtype,
            }
            return hybrid | {"plan": seen(lambda: planned(config))}
    finally:
        ModelRegistry.models.clear()
        ModelRegistry.models.update(kept)
        configs._CONFIG_REGISTRY.clear()
        configs._CONFIG_REGISTRY.update(known)


def loaded(model: Any, kind: str, prefix: str) -> Seen:
    """Load a checkpoint's worth of weights: which parameters were named, and whether values came through."""
    for parameter in model.parameters():
        parameter.data.zero_()
    names = model.load_weights(list(weights(kind, prefix)))
    return {
        "unloaded": sorted({name for name, _ in model.named_parameters()} - names),
        "zero": sorted(name for name, value in model.named_parameters() if not value.any()),
        "embedding": float(model.model.embed_tokens.weight.sum()),
    }


def weights(kind: str, prefix: str) -> Any:
    """Names and shapes as the checkpoints of these models have them, with an image tower where the name has one."""
    h, hd, v = TEXT["hidden_size"], TEXT["head_dim"], TEXT["vocab_size"]
    keys, values = 2 * 8, 4 * 8
    shapes = {"embed_tokens": (v, h), "norm": (h,)}
    for n in range(4):
        layer = f"layers.{n}."
        shapes |= {f"{layer}input_layernorm": (h,), f"{layer}post_attention_layernorm": (h,)}
        if n == 3:
            shapes |= {f"{layer}self_attn.q_proj": (2 * 4 * hd, h), f"{layer}self_attn.o_proj": (h, 4 * hd)}
            shapes |= {f"{layer}self_attn.{x}_proj": (2 * hd, h) for x in "kv"}
            shapes |= {f"{layer}self_attn.{x}_norm": (hd,) for x in "qk"}
        else:
            gdn = f"{layer}linear_attn."
            shapes |= {f"{gdn}in_proj_qkv": (2 * keys + values, h), f"{gdn}in_proj_z": (values, h)}
            shapes |= {f"{gdn}in_proj_a": (4, h), f"{gdn}in_proj_b": (4, h), f"{gdn}out_proj": (h, values)}
            shapes |= {f"{gdn}conv1d": (2 * keys + values, 1, 4), f"{gdn}norm": (8,)}
            shapes |= {f"{gdn}A_log#": (4,), f"{gdn}dt_bias#": (4,)}
        shapes |= mlp(f"{layer}mlp.", kind, h)
    for name, shape in shapes.items():
        yield prefix + (name[:-1] if name.endswith("#") else f"{name}.weight"), torch.full(shape, 0.01)
    yield "lm_head.weight", torch.full((v, h), 0.01)
    yield "mtp.fc.weight", torch.ones(h, 2 * h)
    if prefix == "model.language_model.":
        yield "model.visual.patch_embed.proj.weight", torch.ones(2, 2)


def mlp(at: str, kind: str, h: int) -> Mapping[str, tuple[int, ...]]:
    if kind == "dense":
        return {f"{at}gate_proj": (96, h), f"{at}up_proj": (96, h), f"{at}down_proj": (h, 96)}
    shared = {f"{at}shared_expert.{x}_proj": (32, h) for x in ("gate", "up")}
    fused = {f"{at}experts.gate_up_proj#": (4, 64, h), f"{at}experts.down_proj#": (4, h, 32)}
    return (
        shared
        | fused
        | {f"{at}shared_expert.down_proj": (h, 32), f"{at}gate": (4, h), f"{at}shared_expert_gate": (1, h)}
    )


def profiled(model: Any, config: Any) -> Seen:
    """A forward pass without attention metadata, as the memory profiling makes it, and the logits of it."""
    from vllm.forward_context import set_forward_context
    from vllm.model_executor.layers.mamba.gdn_linear_attn import GatedDeltaNetAttention

    for layer in model.modules():
        layer.cpu_linear = torch.nn.functional.linear  # what the CPU platform sets while it repacks weights
    GatedDeltaNetAttention._warmup_prefill_kernels = lambda *_: None  # Triton kernels, on a GPU only
    tokens, positions = torch.arange(5), torch.arange(5).repeat(3, 1)
    with torch.no_grad(), set_forward_context(None, config):
        hidden = model(tokens, positions)
        logits = model.compute_logits(hidden)
    return {"shape": list(logits.shape), "dtype": str(logits.dtype)}


def states(model: Any, config: Any) -> Seen:
    """The recurrent state as the class tells the engine, and as each layer holds it."""
    layers = [module for module in model.modules() if hasattr(module, "get_state_shape")]
    one = {json.dumps([list(map(list, x.get_state_shape())), list(map(str, x.get_state_dtype()))]) for x in layers}
    told = type(model).get_mamba_state_shape_from_config(config), type(model).get_mamba_state_dtype_from_config(config)
    return {
        "layers": len(layers),
        "of_layers": [json.loads(text) for text in one],
        "told": [list(map(list, told[0])), list(map(str, told[1]))],
        "copies": len(type(model).get_mamba_state_copy_func()),
    }


def planned(config: Any) -> Seen:
    """The KV-cache plan of the engine core for the layers that stand in the static forward context."""
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
    from vllm.v1.core.kv_cache_utils import get_kv_cache_configs, resolve_kv_cache_block_sizes

    if config.model_config.is_hybrid:  # as update_block_size_for_backend asks, too
        Platform._align_hybrid_block_size(config, TritonAttentionBackend)
    layers = get_layers_from_vllm_config(config, AttentionLayerBase)
    specs = {name: layer.get_kv_cache_spec(config) for name, layer in layers.items()}
    (plan,) = get_kv_cache_configs(config, [specs], [1 << 24])
    sizes = [group.kv_cache_spec.page_size_bytes for group in plan.kv_cache_groups]
    return {
        "groups": sorted(type(group.kv_cache_spec).__name__ for group in plan.kv_cache_groups),
        "page_sizes": len(set(sizes)),
        "blocks": plan.num_blocks,
        "scheduler": resolve_kv_cache_block_sizes(plan, config)[0] > 0,
    }


def layer_without_block_size(mode: str) -> int:
    """The block size in the spec of a linear-attention layer of a model that is not known to be hybrid."""
    from vllm.model_executor.layers.mamba.abstract import MambaBase

    class Layer(MambaBase):
        mamba_type = "gdn_attention"

        def get_state_shape(self) -> Any:
            return ((3, 4), (2, 2))

        def get_state_dtype(self) -> Any:
            return (torch.bfloat16, torch.float32)

    cache = Bag(mamba_block_size=None, mamba_page_size_padded=None, mamba_cache_mode=mode, block_size=544)
    config = Bag(cache_config=cache, speculative_config=None, model_config=Bag(max_model_len=4096))
    return int(Layer().get_kv_cache_spec(config).block_size)


def positions(*, features: bool, embeds: bool = False) -> Seen:
    """What the model runner sets for a request to a model that has no M-RoPE code."""
    from vllm.v1.worker.gpu_input_batch import CachedRequestState
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    request = CachedRequestState(
        req_id="r",
        prompt_token_ids=None if embeds else [7, 7, 9, 1, 2],
        mm_features=["an image"] if features else [],
        sampling_params=None,
        generator=None,
        block_ids=([],),
        num_computed_tokens=0,
        output_token_ids=[],
        prompt_embeds=torch.zeros(5, 8) if embeds else None,
    )
    GPUModelRunner._init_mrope_positions(Bag(get_model=torch.nn.Module), request)
    found = request.mrope_positions
    return {"positions": found.tolist(), "dtype": str(found.dtype), "delta": request.mrope_position_delta}


def multimodal_positions() -> Seen:
    """A model that has M-RoPE code is asked, text or not."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    class Model(torch.nn.Module):
        supports_mrope = True

        def get_mrope_input_positions(self, tokens: list[int], features: list[object]) -> Any:
            return torch.full((3, len(tokens)), 42), -len(features)

    request = Bag(prompt_token_ids=[1, 2], mm_features=[], num_prompt_tokens=2)
    GPUModelRunner._init_mrope_positions(Bag(get_model=Model), request)
    return {"positions": request.mrope_positions.tolist(), "delta": request.mrope_position_delta}


def second_runner(*, features: bool) -> Seen:
    """The same question to the newer model runner's state."""
    from vllm.v1.worker.gpu.mm import rope

    staged: dict[int, list[int]] = {}
    rope.StagedWriteTensor = lambda *_, **__: Bag(stage_write=lambda row, _, values: staged.update({row: values}))
    rope.UvaBackedTensor = lambda size, **_: Bag(np=[99] * size)
    model = torch.nn.Module()
    sizes = {"max_num_reqs": 2, "max_num_tokens": 8, "max_model_len": 16, "device": torch.device("cpu")}
    state = rope.get_rope_state(Bag(uses_mrope=True, uses_xdrope_dim=0), model, **sizes)
    state.init_prefill_positions(1, model, [7, 7, 9], ["an image"] if features else [])
    return {"rows": [staged[row] for row in (3, 4, 5)], "delta": state.prefill_delta.np}


PROBES: dict[str, Callable[[], Any]] = {
    **{f"config {kind}": lambda kind=kind: config_of(kind) for kind in KINDS},
    **{f"prefix caching {kind}": lambda kind=kind: prefix_caching_of(kind) for kind in KINDS},
    **{f"draft {kind}": lambda kind=kind: draft_of(kind) for kind in KINDS},
    **{f"construct {kind}": lambda kind=kind: construct(kind) for kind in KINDS},
    "merely registered": lambda: merely_registered("dense"),
    **{f"layer {mode}": lambda mode=mode: layer_without_block_size(mode) for mode in ("none", "align")},
    "positions of text": lambda: positions(features=False),
    "positions of embeds": lambda: positions(features=False, embeds=True),
    "positions of images": lambda: positions(features=True),
    "positions by the model": multimodal_positions,
    "second runner, text": lambda: second_runner(features=False),
    "second runner, images": lambda: second_runner(features=True),
}


def seen(probe: Callable[[], Any]) -> Seen:
    try:
        return {"value": probe()}
    except Exception as error:  # noqa: BLE001  what upstream raises is the observation
        import traceback

        return {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()[-3000:]}


def main(out: str) -> None:
    """Ask everything and write it as JSON."""
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda inspect: inspect()  # a fresh process a class costs 20 s, and finds the same
    wanted = sys.argv[2:] or PROBES
    Path(out).write_text(json.dumps({name: seen(PROBES[name]) for name in wanted}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
