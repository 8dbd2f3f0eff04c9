"""PatchedTree → Wheel: toolchain, cross compiler, and one driver per upstream package."""

from __future__ import annotations

from builder.compile.cache import check_written, compiler_cache
from builder.compile.governed import governed
from builder.compile.jobs import job_count, units_in_hand
from builder.compile.package import Compiled, Order, compile_package, compile_share
from builder.compile.shard import Share
from builder.compile.shared import Shared
from builder.compile.together import together
from builder.compile.toolchain import Kind, Toolchain, prepare
from builder.compile.trace import Traced, traced, write_trace

__all__ = [
    "Compiled",
    "Kind",
    "Order",
    "Share",
    "Shared",
    "Toolchain",
    "Traced",
    "check_written",
    "compile_package",
    "compile_share",
    "compiler_cache",
    "governed",
    "job_count",
    "prepare",
    "together",
    "traced",
    "units_in_hand",
    "write_trace",
]
