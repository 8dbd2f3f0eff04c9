"""Small wheels with a build record and a bill of materials, packed as a build packs them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from builder.compile.wheelfile import Part, wheel_text, write_wheel
from builder.supply import RECORD_NAME, SBOM_NAME, sbom
from tests.supply.records import record

TAG = "cp38-abi3-manylinux_2_35_aarch64"
TAKEN = {"vllm/vllm_flash_attn/_vllm_fa2_C.py": b"fa2 = 1\n", "vllm/third_party/triton_kernels/a.py": b"a = 1\n"}
Change = Callable[[dict[str, Any]], None]
Files = dict[str, bytes | None]


def unchanged(_: dict[str, Any]) -> None:
    """The record as it is."""


def wheel(folder: Path, change: Change = unchanged, files: Files | None = None) -> Path:
    """A vLLM wheel; `change` edits the record before the SBOM is made of it, `files` replace or (None) drop members."""
    value = record()
    value["prebuilt"]["taken"] = {name: hashlib.sha256(data).hexdigest() for name, data in TAKEN.items()}
    change(value)
    version = value["package"]["version"]
    info = f"vllm-{version}.dist-info"
    members: Files = {
        **TAKEN,
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": wheel_text([TAG]).encode(),
        f"{info}/{RECORD_NAME}": json.dumps(value, sort_keys=True, indent=1).encode(),
        f"{info}/{SBOM_NAME}": sbom(value),
    }
    members |= {name.replace("INFO", info): data for name, data in (files or {}).items()}
    parts = [Part(name, data) for name, data in members.items() if data is not None]
    return write_wheel(folder / f"vllm-{version}-{TAG}.whl", parts, info)
