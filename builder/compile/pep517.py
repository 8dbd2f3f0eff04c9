"""Upstream's own PEP 517 build, driven in the closed environment of the toolchain."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyproject_hooks import BuildBackendHookCaller

from builder.compile.toolchain import Toolchain
from builder.compile.units import UnitWatch
from builder.context import Context
from builder.errors import RunError


def build_wheel(
    source: Path,
    out: Path,
    toolchain: Toolchain,
    context: Context,
    *,
    env: Mapping[str, str],
    watch: UnitWatch,
    options: Sequence[str] = (),
) -> Path:
    """Run the backend's `build_wheel`; returns the wheel in `out`. Raises CompileError."""
    log = context.logs / f"{watch.what}.log"
    environment = toolchain.environment() | dict(env)

    def run_hook(cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None) -> None:
        merged = environment | dict(extra_environ or {})
        context.run(cmd, cwd=Path(cwd) if cwd else None, env=merged, log=log, on_line=watch)

    system = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    backend = BuildBackendHookCaller(
        str(source),
        system["build-backend"],
        backend_path=system.get("backend-path"),
        runner=run_hook,
        python_executable=str(toolchain.python),
    )
    out.mkdir(parents=True, exist_ok=True)
    try:
        settings: dict[str, str | list[str]] = {"--build-option": list(options), "--quiet": "yes"}  # no line a file
        name = backend.build_wheel(str(out), settings)
    except RunError as error:
        raise watch.error(str(log)) from error
    return out / name
