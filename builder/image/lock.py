"""The lock of what our wheels need at run time, resolved by uv for the target and kept without addresses.

uv resolves for another platform from metadata alone: nothing of the target is run. Its answer, a
PEP 751 lock, names files of one index; ours keeps name, version, digest and size, as the toolchain's lock does.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from packaging.utils import canonicalize_name, parse_wheel_filename

from builder.context import Context
from builder.errors import FetchError, RecipeError, ToolchainError
from builder.model import LockedFile, Recipe

GLIBC = "2_35"
"""The oldest glibc that an image's base may have: the one that vLLM's own wheels ask for."""


def resolve(recipe: Recipe, wheels: Sequence[Path], python: str, context: Context) -> tuple[LockedFile, ...]:
    """Pin everything that the wheels need beside themselves, for the recipe's machine and that Python.

    Raises ToolchainError without uv, RecipeError when there is no solution, FetchError when the index says no sizes.
    """
    with context.store.scratch() as scratch:
        asked, answer = scratch / "asked.in", scratch / "pylock.toml"
        asked.write_text("".join(f"{_pin(path)}\n" for path in wheels), encoding="utf-8")
        done = context.run(
            [*_uv(), *_arguments(recipe, wheels, python), str(asked), "-o", str(answer)],
            log=context.logs / "uv.log",
            check=False,
        )
        if done.returncode != 0:
            raise RecipeError(
                "uv finds no set of files that fits the wheels",
                where=str(context.logs / "uv.log"),
                remedy="read what it says there, and mend `requires` in the recipe",
            )
        return tuple(files_in(tomllib.loads(answer.read_text(encoding="utf-8")), recipe.target.machine, wheels))


def _pin(path: Path) -> str:
    name, version, _, _ = parse_wheel_filename(path.name)
    return f"{name}=={version}"


def _uv() -> list[str]:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise ToolchainError("uv is not here", expected="uv 0.5 or newer", remedy="pip install uv")
    return [found]


def _arguments(recipe: Recipe, wheels: Sequence[Path], python: str) -> list[str]:
    folders = sorted({str(path.parent) for path in wheels})
    return [
        *("pip", "compile", "--quiet", "--no-python-downloads", "--only-binary", ":all:", "--generate-hashes"),
        *("--python-platform", f"{recipe.target.machine}-manylinux_{GLIBC}", "--python-version", python),
        *("--format", "pylock.toml"),
        *(word for folder in folders for word in ("--find-links", folder)),
    ]


def files_in(answer: Mapping[str, Any], machine: str, ours: Sequence[Path]) -> Iterator[LockedFile]:
    """The files of a PEP 751 lock that are not ours. Raises FetchError for a file without digest or size."""
    own = {parse_wheel_filename(path.name)[0] for path in ours}
    for package in answer["packages"]:
        project = canonicalize_name(package["name"])
        if project not in own:
            yield _file(project, package, machine)


def _file(project: str, package: Mapping[str, Any], machine: str) -> LockedFile:
    """The one wheel that uv left; the last of several is the one that asks for most of the machine."""
    wheels = sorted(package.get("wheels", ()), key=_filename)
    wheel = wheels[-1] if wheels else {}
    sha256, size = wheel.get("hashes", {}).get("sha256", ""), wheel.get("size", 0)
    if not (sha256 and size):
        raise FetchError(
            f"the package index does not give digest and size of {project} {package.get('version', '')}",
            expected="an index with JSON pages (PEP 691 and 700), or sizes in its own form",
            remedy="lock against such an index",
        )
    version = str(parse_wheel_filename(_filename(wheel))[1])
    return LockedFile(project, version, _filename(wheel), sha256, size, (f"image-{machine}",))


def _filename(wheel: Mapping[str, Any]) -> str:
    return str(wheel.get("name") or unquote(str(wheel.get("url") or wheel.get("path") or "").rpartition("/")[2]))
