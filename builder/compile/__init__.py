"""PatchedTree → Wheel: toolchain, cross compiler, and one driver per upstream package."""

from __future__ import annotations

from builder.compile.cache import compiler_cache
from builder.compile.jobs import job_count
from builder.compile.package import Compiled, Order, compile_package
from builder.compile.toolchain import Kind, Toolchain, prepare

__all__ = ["Compiled", "Kind", "Order", "Toolchain", "compile_package", "compiler_cache", "job_count", "prepare"]
