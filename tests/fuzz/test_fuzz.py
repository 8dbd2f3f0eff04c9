"""The fuzzer's guards: what they say is a find is one."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LOAD = f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent.parent)!r}]; import fuzz_inspect as fuzz\n"


def fuzzed(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, whose peak of memory is nobody else's, though its parent had more."""
    return subprocess.run([sys.executable, "-c", LOAD + code], cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("code", "find"),
    [
        ("fuzz.one = lambda data: len(b'x' * (200 << 20))", "MemoryError: an input took"),
        ("fuzz.SLOWEST = -1.0; fuzz.one = lambda data: None", "TimeoutError: an input took more than"),
        ("fuzz.one = lambda data: 1 // len(data[1:])", "ZeroDivisionError"),
    ],
)
def test_what_counts_as_a_find_stops_the_run_and_is_kept(tmp_path: Path, code: str, find: str) -> None:
    done = fuzzed(tmp_path, f"{code}\nfuzz.Budget(60).read(b'?')")
    assert done.returncode == 1
    assert find in done.stderr
    assert [path.read_bytes() for path in tmp_path.glob("fuzz-find-*")] == [b"?"]


def test_the_most_that_the_longest_input_may_unpack_to_is_no_find(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo/zeros.bin", b"\0" * 62_000_000)
    (tmp_path / "input").write_bytes(stream.getvalue())
    code = "data = open('input', 'rb').read(); assert len(data) < fuzz.LONGEST; budget = fuzz.Budget(60)\n"
    done = fuzzed(tmp_path, code + "budget.read(data); budget.read(data); print(budget.inputs)")
    assert (done.stdout, done.stderr) == ("2\n", "")
