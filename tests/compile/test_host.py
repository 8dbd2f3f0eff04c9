"""What is told where the machine lacks a compiler for the target."""

import platform
import shutil
from pathlib import Path

import pytest

from builder.compile import host
from builder.compile.host import find_compilers
from builder.context import Context
from builder.errors import ToolchainError


@pytest.mark.parametrize(
    ("here", "machine", "package"),
    [("aarch64", "x86_64", "g++-x86-64-linux-gnu"), ("x86_64", "aarch64", "g++-aarch64-linux-gnu")],
)
def test_the_command_names_the_package_as_debian_does(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str, machine: str, package: str
) -> None:
    """A compiler that is there in part, as after an upgrade that was broken off; of Python all is there."""
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(host, "python_headers", lambda: tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: here)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name.endswith("g++") else None)
    with pytest.raises(ToolchainError, match=f"no {machine}-linux-gnu-gcc, strip") as told:
        find_compilers(machine, context)
    assert f" {package} " in told.value.remedy
