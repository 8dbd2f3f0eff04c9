"""Asks FlashInfer's own generators for modules and writes their ninja files; runs in the build's Python.

Arguments: a JSON object {"source", "build", "modules", "site", "headers"}. Prints one JSON object: the names that
FlashInfer's ahead-of-time list holds for the chosen architectures, those that it cannot make, and the files of the
source that its generators are written in.
FlashInfer's package body is not run (it imports all of torch): only its generators are.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

_XQA = re.compile(
    r"xqa_input_(?P<input>\w+?)_kv_cache_(?P<kv>\w+?)_output_(?P<output>\w+?)_page_size_(?P<page>\d+)"
    r"_head_dim_(?P<dim>\d+)_head_group_ratio_(?P<ratio>\d+)_use_sliding_window_(?P<window>True|False)"
    r"_use_spec_dec_(?P<spec>True|False)_spec_q_seq_len_(?P<queries>\d+)"
)


def main(text: str) -> None:
    """Write `build.ninja` for the asked modules under the build folder."""
    asked = json.loads(text)
    source, build = Path(asked["source"]), Path(asked["build"])
    package = types.ModuleType("flashinfer")
    package.__path__ = [str(source / "flashinfer")]
    sys.modules["flashinfer"] = package
    _point_at(source, build)
    ahead = {spec.name: spec for spec in _ahead_of_time()}
    specs = {name: ahead.get(name) or _xqa(name) for name in asked["modules"]}
    unknown = [name for name, spec in specs.items() if spec is None]
    if not unknown:
        _write(build, [spec for spec in specs.values() if spec is not None], _canonical(asked))
    print(json.dumps({"ahead_of_time": sorted(ahead), "unknown": unknown, "python": _imported(source)}))


def _imported(source: Path) -> list[str]:
    files = [Path(name) for module in list(sys.modules.values()) if (name := getattr(module, "__file__", None))]
    return sorted({str(file.relative_to(source)) for file in files if file.is_relative_to(source)})


def _point_at(source: Path, build: Path) -> None:
    from flashinfer.jit import env

    env.FLASHINFER_CSRC_DIR = source / "csrc"
    env.FLASHINFER_INCLUDE_DIR = source / "include"
    cutlass = source / "3rdparty" / "cutlass"
    env.CUTLASS_INCLUDE_DIRS = [cutlass / "include", cutlass / "tools" / "util" / "include"]
    env.SPDLOG_INCLUDE_DIR = source / "3rdparty" / "spdlog" / "include"
    env.FLASHINFER_WORKSPACE_DIR = build
    env.FLASHINFER_JIT_DIR = build / "cached_ops"
    env.FLASHINFER_GEN_SRC_DIR = build / "generated"
    env.FLASHINFER_JIT_DIR.mkdir(parents=True, exist_ok=True)
    env.FLASHINFER_GEN_SRC_DIR.mkdir(parents=True, exist_ok=True)


def _ahead_of_time() -> list[Any]:
    from flashinfer import aot

    config = aot.get_default_config()
    return list(
        aot.gen_all_modules(
            f16_dtype_=config["f16_dtype"],
            f8_dtype_=config["f8_dtype"],
            fa2_head_dim_=config["fa2_head_dim"],
            fa3_head_dim_=config["fa3_head_dim"],
            use_sliding_window_=config["use_sliding_window"],
            use_logits_soft_cap_=config["use_logits_soft_cap"],
            sm_capabilities=aot.detect_sm_capabilities(),
            **{name: value for name, value in config.items() if name.startswith("add_")},
        )
    )


def _xqa(name: str) -> Any:
    """An XQA module by its name: the ahead-of-time list holds no uint8 (NVFP4) KV caches."""
    from flashinfer.jit import utils
    from flashinfer.jit.xqa import gen_xqa_module

    match = _XQA.fullmatch(name)
    if match is None:
        return None
    dtypes = {short: dtype for dtype, short in utils.filename_safe_dtype_map.items()}
    spec = gen_xqa_module(
        input_dtype=dtypes[match["input"]],
        kv_cache_dtype=dtypes[match["kv"]],
        page_size=int(match["page"]),
        head_dim=int(match["dim"]),
        head_group_ratio=int(match["ratio"]),
        use_sliding_window=match["window"] == "True",
        output_dtype=dtypes[match["output"]],
        q_seq_len=int(match["queries"]),
    )
    return spec if spec.name == name else None


def _canonical(asked: dict[str, Any]) -> dict[str, str]:
    """Folders of headers that differ from machine to machine, and the same by paths that do not.

    Headers put their own path into objects wherever they use __FILE__.
    """
    return {
        str(Path(asked["site"]).resolve()): asked["site"],
        sysconfig.get_path("include"): asked["headers"],
    }


def _write(build: Path, specs: list[Any], canonical: dict[str, str]) -> None:
    lines = ["ninja_required_version = 1.3"]
    for spec in specs:
        spec.write_ninja()
        text = spec.ninja_path.read_text(encoding="utf-8")
        for found, meant in canonical.items():
            text = text.replace(found, meant)
        spec.ninja_path.write_text(text, encoding="utf-8")
        lines.append(f"subninja {spec.ninja_path}")
    (build / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
