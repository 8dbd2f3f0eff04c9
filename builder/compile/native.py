"""The compiled parts of a package, kept by what they are compiled from: a change elsewhere compiles nothing.

A package's wheel changes with every file of its tree; its extensions only with those that a compiler or a build script
reads. They are kept under a key of exactly these, and a build that finds them neither configures nor compiles.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from builder.compile.toolchain import Toolchain
from builder.git import Entry
from builder.store import Store, atomic_write, key_of

_SCRIPT = Path(__file__).parent / "facade" / "cmake_door.py"


@dataclass(frozen=True, slots=True)
class Rule:
    """Which files of a tree no compiler and no build script reads: shell patterns, `*` crosses folders.

    `unless` are exceptions from them. `varies` are beginnings of CMake arguments that change no compiled byte.
    """

    apart: tuple[str, ...]
    unless: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()

    def reads(self, path: str) -> bool:
        """Whether the file may reach compiled code."""
        return not _any(path, self.apart) or _any(path, self.unless)


def kept_parts(store: Store, key: str) -> Path | None:
    """The folder with the compiled parts of an earlier build under this key."""
    path = store.root / "trees" / key
    return path if path.is_dir() else None


@dataclass(frozen=True, slots=True)
class Left:
    """A configured build folder, and the targets that upstream asked for; none means all."""

    folder: Path
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Door:
    """What one build leaves and finds at the door before cmake; see `facade/cmake_door.py`."""

    store: Store
    key: str
    state: Path

    @property
    def kept(self) -> Path | None:
        """The compiled parts of an earlier build under this key."""
        return kept_parts(self.store, self.key)

    @property
    def skipped(self) -> bool:
        """True when this build took the kept parts."""
        return (self.state / "skipped").exists()

    @property
    def left(self) -> Left | None:
        """What building was left to us."""
        word = self.state / "build.json"
        if not word.is_file():
            return None
        said = json.loads(word.read_text(encoding="utf-8"))
        return Left(Path(said["folder"]), tuple(said["targets"]))

    def environment(self, toolchain: Toolchain, rule: Rule, *, share: bool) -> dict[str, str]:
        """Variables that put the door before cmake: its place in PATH, and where its word is.

        A share finds no kept parts: its objects must reach the compiler cache, whatever this machine has.
        """
        word = {
            "cmake": str(toolchain.bin / "cmake"),
            "state": str(self.state),
            "kept": "" if share else str(self.kept or ""),
            "varies": list(rule.varies),
            "share": share,
        }
        self.state.mkdir(parents=True, exist_ok=True)
        atomic_write(self.state / "door.json", json.dumps(word).encode())
        path = f"{_place(toolchain)}:{toolchain.environment()['PATH']}"
        return {"SPARK_CMAKE_DOOR": str(self.state / "door.json"), "PATH": path}

    def keep(self, files: Mapping[str, Entry]) -> None:
        """Keep what was compiled. `files` are those of the tree: a part that is one of them is not compiled."""
        parts = self.state / "parts"
        if self.skipped or not parts.is_dir() or not (self.state / "arguments.json").is_file():
            return
        installed = {str(path.relative_to(place)) for place in parts.iterdir() for path in place.rglob("*")}
        if installed & files.keys():
            return
        self.store.tree(self.key, self._copy)

    def _copy(self, folder: Path) -> None:
        shutil.copytree(self.state / "parts", folder / "parts", symlinks=True)
        shutil.copy2(self.state / "arguments.json", folder)


def native_key(files: Mapping[str, Entry], rule: Rule, others: Sequence[object]) -> str:
    """A key of the files of a tree that may reach compiled code, and of all else that does."""
    read = {path: (entry.mode, entry.oid) for path, entry in files.items() if rule.reads(path)}
    return f"native-{key_of([read, rule.apart, rule.unless, rule.varies, list(others)])[:32]}"


def _place(toolchain: Toolchain) -> Path:
    folder = toolchain.root / "door"
    text = f"#!{toolchain.python} -IS\n{_SCRIPT.read_text(encoding='utf-8')}"
    door = folder / "cmake"
    if not door.is_file() or door.read_text(encoding="utf-8") != text:
        atomic_write(door, text.encode(), mode=0o755)
    return folder


def _any(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
