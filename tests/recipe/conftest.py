"""A small project root: one good recipe, one patch, one lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOOD = """
revision = 1

[target]
platform = "linux-aarch64"
cuda_arch = ["12.1a", "12.0+PTX"]
python = "3.12"

[toolchain]
cuda = "13.0.2"
torch = "2.11.0"
lock = "locks/small.toml"
base_image = "nvidia/cuda:13.0.2@sha256:DIGEST"

[[package]]
name = "flashinfer-python"
version = "0.6.8"
git = "https://example.org/flashinfer.git"
commit = "COMMIT"
sdist = "flashinfer_python-0.6.8.tar.gz"
sha256 = "DIGEST"
tree = "COMMIT"
result_tree = "COMMIT"
vendored = { "3rdparty/cutlass" = "4.4.2" }

[[package]]
name = "flashinfer-jit-cache"
source = "flashinfer-python"
components = ["fp4_quantization_121"]

[[package]]
name = "vllm"
version = "0.20.0"
git = "https://example.org/vllm.git"
commit = "COMMIT"
sdist = "vllm-0.20.0.tar.gz"
sha256 = "DIGEST"
tree = "COMMIT"
result_tree = "COMMIT"
patches = ["vllm/0001-arch-list.patch"]
components = ["cumem_allocator", "_C"]

[package.prebuilt]
wheel = "vllm-0.20.0-cp38-abi3-manylinux_2_35_aarch64.whl"
sha256 = "DIGEST"
files = ["vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"]
reason = "source not reachable"

[[package.externals]]
name = "vllm-flash-attn"
git = "https://example.org/fa.git"
commit = "COMMIT"
variable = "VLLM_FLASH_ATTN_SRC_DIR"

[[verify.instructions]]
package = "vllm"
object = "vllm/_C_stable_libtorch.abi3.so"
needs = "OMMA"
""".replace("COMMIT", "a1" * 20).replace("DIGEST", "b2" * 32)

Write = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project root with recipes/good.toml."""
    for folder in ("recipes/locks", "patches/vllm"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "patches/vllm/0001-arch-list.patch").write_text("one\n")
    (tmp_path / "recipes/locks/small.toml").write_text("format = 1\n")
    (tmp_path / "recipes/good.toml").write_text(GOOD)
    return tmp_path


@pytest.fixture
def write(root: Path) -> Write:
    """Writes recipes/NAME.toml: the good one with texts replaced, or a whole text."""

    def write(name: str, *changes: tuple[str, str], text: str = GOOD) -> Path:
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = root / "recipes" / f"{name}.toml"
        path.write_text(text)
        return path

    return write
