"""sccache as we set it, with a real compiler: what a damaged entry costs, and what is counted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builder.compile.cache import _environment
from builder.context import Context

pytestmark = [pytest.mark.compile]


def flipped(at: float) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        place = int(len(data) * at)
        return data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]

    return damage


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "rubbish": lambda _data: b"rubbish",
    **{f"one byte at {at:.0%}": flipped(at) for at in (0.1, 0.3, 0.5, 0.7, 0.9)},
}


@pytest.fixture(scope="module")
def sccache() -> str:
    tool = shutil.which("sccache")
    if tool is None:
        pytest.skip("no sccache in PATH")
    return tool


@pytest.fixture
def compiled(sccache: str, context: Context, tmp_path: Path) -> Iterator[Callable[[], bytes]]:
    """Compiles one file and gives the object's bytes."""
    source, made = tmp_path / "x.cpp", tmp_path / "x.o"
    source.write_text("int answer(int question) { return question + 42; }\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | _environment(context)
    env |= {"SCCACHE_SERVER_UDS": str(tmp_path / "s")}

    def compile_() -> bytes:
        made.unlink(missing_ok=True)
        words = [sccache, "g++", "-O1", "-c", str(source), "-o", str(made)]
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return made.read_bytes()

    yield compile_
    subprocess.run([sccache, "--stop-server"], env=env, capture_output=True, check=False)


def entries(context: Context) -> list[Path]:
    return [path for path in (context.store.root / "sccache").rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_compiled_again(damage: str, compiled: Callable[[], bytes], context: Context) -> None:
    good = compiled()
    (entry,) = entries(context)
    whole = entry.read_bytes()
    entry.write_bytes(DAMAGES[damage](whole))
    assert compiled() == good
    assert compiled() == good


def test_the_cache_holds_objects_alone_and_lies_in_the_store(compiled: Callable[[], bytes], context: Context) -> None:
    compiled()
    assert [path.parts[-4] for path in entries(context)] == ["sccache"]
