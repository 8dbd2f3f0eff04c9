"""The machine that compiles: its C++ compiler for the target, and Python's headers.

Missing Debian packages are installed when we are root on a Debian-like system; otherwise the
error holds the exact command.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

from builder.compile.headers import python_headers
from builder.context import Context
from builder.errors import ToolchainError
from builder.run import tool_environment

AS_NAMED = "-fno-canonical-system-headers"
"""GCC's flag to name headers as they were asked for. Else it follows links where that makes the name shorter, and the
store's place would get into objects (by `__FILE__`) and into the cache's keys."""


@dataclass(frozen=True, slots=True)
class Compilers:
    """C and C++ compilers that produce the target's code; `cross` when it is not this machine's."""

    cc: Path
    cxx: Path
    strip: Path
    version: str
    cross: bool


def find_compilers(machine: str, context: Context) -> Compilers:
    """GCC for `machine`, installed if it may be; raises ToolchainError with the command if not."""
    cross = machine != platform.machine()
    prefix = f"{machine}-linux-gnu-"
    package = f"g++-{machine.replace('_', '-')}-linux-gnu" if cross else "g++"
    if shutil.which(f"{prefix}g++") is None:
        _install([package], f"a C++ compiler for {machine}", context)
    if not (python_headers() / "Python.h").is_file():
        _install(["python3-dev"], "Python's C headers (Python.h)", context)
    found = {tool: shutil.which(f"{prefix}{tool}") for tool in ("gcc", "g++", "strip")}
    missing = [tool for tool, path in found.items() if path is None]
    if missing or not (python_headers() / "Python.h").is_file():
        raise ToolchainError(
            f"no {prefix}{', '.join(missing)}" if missing else f"no Python.h in {python_headers()}",
            where="this machine",
            expected=f"GCC for {machine} and Python's headers",
            remedy=f"install them: {_command([package, 'python3-dev'])}",
        )
    paths = {tool: Path(path) for tool, path in found.items() if path is not None}
    version = context.run([paths["g++"], "-dumpfullversion"]).output.strip()
    return Compilers(paths["gcc"], paths["g++"], paths["strip"], version, cross)


def installed_compilers(machine: str, context: Context) -> Compilers | None:
    """The same if it is all there already; nothing is installed."""
    needed = [f"{machine}-linux-gnu-{tool}" for tool in ("gcc", "g++", "strip")]
    whole = all(map(shutil.which, needed)) and (python_headers() / "Python.h").is_file()
    return find_compilers(machine, context) if whole else None


def _command(packages: list[str]) -> str:
    return f"sudo apt-get update && sudo apt-get install --no-install-recommends {' '.join(packages)}"


def _install(packages: list[str], purpose: str, context: Context) -> None:
    """apt-get install as root on a Debian-like system; otherwise say the command and stop."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise ToolchainError(
            f"{purpose} is missing",
            where="this machine",
            expected=f"Debian's {' '.join(packages)}, or your system's equal",
            remedy=_command(packages) if apt else f"install {' '.join(packages)}",
        )
    context.report.note(f"installing {' '.join(packages)} ({purpose}); see {context.logs / 'apt.log'}")
    env = tool_environment({"DEBIAN_FRONTEND": "noninteractive"}) | _apt_settings()
    log = context.logs / "apt.log"
    context.run([apt, "update", "-q"], env=env, log=log)
    context.run([apt, "install", "-q", "-y", "--no-install-recommends", *packages], env=env, log=log)


def _apt_settings() -> dict[str, str]:
    """Proxies and a configuration file of the caller's, which apt-get needs to reach its mirror."""
    names = ("http_proxy", "https_proxy", "no_proxy", "APT_CONFIG")
    return {name: os.environ[name] for name in names if name in os.environ}
