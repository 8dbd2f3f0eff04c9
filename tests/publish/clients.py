"""How the real pip and uv are called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Protocol

import pytest

from builder.run import Completed

PIP = (sys.executable, "-m", "pip", "--no-cache-dir")
UV = (sys.executable, "-m", "uv")
TOOLS = (pytest.param("pip", marks=pytest.mark.slow), "uv")  # where test_clients.py has shown pip already


class Client(Protocol):
    """Runs a command in the test's folder, with nothing of this machine's settings."""

    def __call__(self, *argv: str | Path, check: bool = ...) -> Completed: ...


def installer(tool: str, environment: Path) -> tuple[str | Path, ...]:
    if tool == "pip":
        return (*PIP, "--python", environment, "install")
    return (*UV, "pip", "install", "--python", environment)


def installed_version(client: Client, environment: Path) -> str:
    return client(environment, "-c", "import spark_kernels; print(spark_kernels.__version__)").output.strip()
