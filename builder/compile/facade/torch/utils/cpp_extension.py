"""The CUDA home that the builder chose, and the pinned torch's own nvcc flags."""

import os

from .._pinned import constant

CUDA_HOME: str | None = os.environ.get("CUDA_HOME")
ROCM_HOME: str | None = None
COMMON_NVCC_FLAGS: list[str] = constant("utils/cpp_extension.py", "COMMON_NVCC_FLAGS")
