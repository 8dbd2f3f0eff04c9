"""The program as a user starts it: a process of its own, with a store and an out folder of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """What a call left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout: anything before or after it fails."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        assert value["version"] == 1
        assert self.out == json.dumps(value, sort_keys=True, indent=1) + "\n"
        return value


@dataclass(frozen=True)
class Cli:
    """`python -m builder …` with the given environment."""

    environment: Mapping[str, str] = field(default_factory=dict)

    def start(
        self, *words: str | Path, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "builder", *map(str, words)]
        environment = dict(self.environment)
        return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=stdout, stderr=stderr)

    def __call__(self, *words: str | Path) -> Ended:
        with self.start(*words) as process:
            out, err = process.communicate(timeout=120)
        return Ended(process.returncode, out, err)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    own = {"SPARK_WHEELS_STORE": str(tmp_path / "store"), "SPARK_WHEELS_ROOT": str(tmp_path / "canonical")}
    (tmp_path / "tmp").mkdir()
    return Cli({**keep, **own, "TMPDIR": str(tmp_path / "tmp"), "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"})


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ended]]:
    """The same in this process; signals are as before afterwards."""
    from builder.__main__ import main

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]

    def call(*words: str) -> Ended:
        code = main(words)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    yield call
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
