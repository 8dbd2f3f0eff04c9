"""Ten thousand files: full regeneration and a publish of one, beside an existing static generator.

Run with `python -m benchmarks.index [files=10000] [projects=100]`; needs dumb-pypi for the comparison.
Every figure is of a process of its own: wall seconds and peak resident MB, interpreter start included.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from builder.publish import publish, refresh
from tests.publish.wheels import build_wheel, verified

SIMPLE = ("--no-per-release-json", "--no-generate-timestamp", "--packages-url", "../../files/")


def main(argv: Sequence[str]) -> None:
    """Make the wheels, then time each job once and print a table."""
    options = dict(text.split("=", 1) for text in argv)
    files, projects = int(options.get("files", 10_000)), int(options.get("projects", 100))
    with tempfile.TemporaryDirectory(dir=options.get("folder")) as folder:
        root = Path(folder)
        _make_wheels(root / "wheels", files, projects)
        build_wheel(root / "one", "project-0", "999", "py3-none-any", payload=b"one", requires_python=">=3.11")
        _say(f"{files} files in {projects} projects")
        _ours(root)
        _theirs(root)


def _ours(root: Path) -> None:
    index = root / "index"
    _timed(f"publish all from empty ({_start(index, root)})", [*_self("publish"), root / "wheels", index])
    for page in index.rglob("index.html"):
        page.unlink()
    (index / "simple/index.json").unlink()
    _timed("full regeneration", [*_self("refresh"), index])
    _timed("regeneration, nothing to do", [*_self("refresh"), index])
    _timed("publish one more", [*_self("publish"), root / "one", index])
    _timed("publish the same again", [*_self("publish"), root / "one", index])


def _theirs(root: Path) -> None:
    tool = shutil.which("dumb-pypi", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if tool is None:
        _say("dumb-pypi is not installed: no comparison")
        return
    before, after = root / "before.jsonl", root / "after.jsonl"
    lines = _list_of_all(root / "index")
    after.write_text("".join(lines))
    before.write_text("".join(line for line in lines if "-999-" not in line))
    common = [*SIMPLE, "--output-dir", root / "theirs"]
    _timed("dumb-pypi: full generation", [tool, "--package-list-json", before, *common])
    _timed("dumb-pypi: full generation again", [tool, "--package-list-json", before, *common])
    partial = ["--previous-package-list-json", before]
    _timed("dumb-pypi: one file more", [tool, "--package-list-json", after, *partial, *common])


def _list_of_all(index: Path) -> list[str]:
    """The other generator's input, with the same digests and metadata."""
    lines = []
    for page in sorted(index.glob("simple/*/index.json")):
        for file in json.loads(page.read_bytes())["files"]:
            entry = {
                "filename": file["filename"],
                "hash": f"sha256={file['hashes']['sha256']}",
                "requires_python": file.get("requires-python"),
                "core_metadata": f"sha256={file['core-metadata']['sha256']}",
                "upload_timestamp": 1_790_000_000,
            }
            lines.append(json.dumps(entry) + "\n")
    return lines


def _make_wheels(folder: Path, files: int, projects: int) -> None:
    for n in range(files):
        name, version = f"project-{n % projects}", f"1.{n // projects}+aeon7.1"
        build_wheel(folder, name, version, "py3-none-any", payload=b"x" * 64, requires_python=">=3.11")


def _start(index: Path, root: Path) -> str:
    index.mkdir()
    total = sum(path.stat().st_size for path in (root / "wheels").iterdir())
    return f"{total / 1e6:.1f} MB"


def _self(job: str) -> list[str | Path]:
    return [sys.executable, "-m", "benchmarks.index", "--job", job]


def _timed(title: str, argv: Sequence[object]) -> None:
    start = time.monotonic()
    process = subprocess.Popen([str(part) for part in argv], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    cpu = usage.ru_utime + usage.ru_stime
    _say(f"{title:40} {seconds:7.2f} s  {cpu:6.2f} s CPU  {usage.ru_maxrss / 1024:6.0f} MB  exit {process.returncode}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _job(argv: Sequence[str]) -> None:
    if argv[0] == "refresh":
        refresh(Path(argv[1]))
    else:
        publish([verified(path) for path in sorted(Path(argv[1]).iterdir())], Path(argv[2]))


if __name__ == "__main__":
    _job(sys.argv[2:]) if sys.argv[1:2] == ["--job"] else main(sys.argv[1:])
