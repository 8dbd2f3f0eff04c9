"""Stands before cmake in upstream's build, so that what is compiled already need not be configured again.

Started as `cmake` by upstream's setup.py with the build's Python; imports nothing of ours. SPARK_CMAKE_DOOR names a
JSON file: {"cmake": the real one, "state": a folder to leave word in, "kept": a folder or "", "varies": [prefixes
of arguments that change nothing], "share": true when only objects are wanted}.

- Configure: the arguments are written down. When they are those that the kept parts were made with, nothing runs.
  One that was cut short is begun anew: upstream's scripts may have generated sources for it that CMake, which writes
  what it knows at its end, would take for those of the time before.
- Build: where only a share of the objects is wanted, it is not for us to choose: we leave word of the folder and the
  targets, and end with 75.
- Install: the real one installs into a folder of the state first, which is what may be kept afterwards; kept
  parts are copied from where they are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

BEGUN = ".configure-begun"
"""In the build folder while CMake configures there, and after it was cut short or failed."""

LEFT = 75
"""The exit code of a build that was left to the caller."""


def main(argv: list[str]) -> int:
    """One call of cmake."""
    door: dict[str, Any] = json.loads(Path(os.environ["SPARK_CMAKE_DOOR"]).read_text(encoding="utf-8"))
    state = Path(door["state"])
    skipped = (state / "skipped").exists()
    if argv[:1] == ["--install"]:
        return _install(argv, door, skipped=skipped)
    if argv[:1] == ["--build"]:
        if door["share"] and not skipped:
            targets = [word.removeprefix("--target=") for word in argv if word.startswith("--target=")]
            word = {"folder": os.getcwd(), "targets": targets}  # noqa: PTH109  as cmake would see it
            (state / "build.json").write_text(json.dumps(word), encoding="utf-8")
            return LEFT
        return 0 if skipped else _real(door, argv)
    if argv and not argv[0].startswith("-"):
        return _configure(argv, door)
    return _real(door, argv)


def _real(door: dict[str, Any], argv: list[str]) -> NoReturn:
    os.execv(door["cmake"], [door["cmake"], *argv])  # noqa: S606


def _configure(argv: list[str], door: dict[str, Any]) -> int:
    said = [word for word in argv if not word.startswith(tuple(door["varies"]))]
    text = json.dumps(said)
    (Path(door["state"]) / "arguments.json").write_text(text, encoding="utf-8")
    kept = Path(door["kept"], "arguments.json")
    if door["kept"] and kept.is_file() and kept.read_text(encoding="utf-8") == text:
        (Path(door["state"]) / "skipped").touch()
        print("-- Compiled before from the same sources with the same arguments: kept", flush=True)
        return 0
    begun = Path(BEGUN)
    if begun.exists():
        Path("CMakeCache.txt").unlink(missing_ok=True)
    begun.touch()
    code = subprocess.run([door["cmake"], *argv], check=False).returncode
    if code == 0:
        begun.unlink()
    return code if code >= 0 else 128 - code


def _install(argv: list[str], door: dict[str, Any], *, skipped: bool) -> int:
    prefix, component = argv[argv.index("--prefix") + 1], argv[argv.index("--component") + 1]
    parts = Path(door["kept"] if skipped else door["state"], "parts", component)
    if not skipped:
        words = [str(parts) if word == prefix else word for word in argv]
        done = subprocess.run([door["cmake"], *words], check=False)
        if done.returncode != 0:
            return done.returncode
    if not parts.is_dir():
        print(f"CMake Error: no kept part {component} in {door['kept']}", file=sys.stderr)
        return 1
    shutil.copytree(parts, prefix, symlinks=True, dirs_exist_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
