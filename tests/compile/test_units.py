import io
import json
import time
from pathlib import Path

import pytest

from builder.compile.forecast import Forecast
from builder.compile.units import UnitWatch
from builder.report import Report

NINJA = """\
-- Configuring done (1.0s)
[1/4] Building CUDA object CMakeFiles/_C.dir/a.cu.o
[2/4] Building CUDA object CMakeFiles/_C.dir/b.cu.o
FAILED: [code=1] CMakeFiles/_C.dir/b.cu.o
nvcc -c b.cu -o b.o
b.cu(7): error: identifier "nope" is undefined
[3/4] Building CUDA object CMakeFiles/_C.dir/c.cu.o
c.cu: warning: something else
ninja: build stopped: subcommand failed.
"""


def watch(text: str) -> UnitWatch:
    seen = UnitWatch(Report(io.StringIO(), github=False), "vllm")
    for line in text.splitlines():
        seen(line)
    return seen


def test_the_failed_unit_speaks_for_itself() -> None:
    seen = watch(NINJA)
    error = str(seen.error("build.log"))
    assert (seen.done, seen.total) == (3, 4)
    assert "CMakeFiles/_C.dir/b.cu.o failed" in error
    assert 'identifier "nope" is undefined' in error
    assert "something else" not in error
    assert "build.log" in error


def test_a_killed_compiler_is_said_to_be_memory() -> None:
    text = NINJA.replace(
        'b.cu(7): error: identifier "nope" is undefined', "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"
    )
    error = str(watch(text).error("build.log"))
    assert "killed, most likely for memory" in error
    assert "b.cu.o" in error
    assert "jobs=1" in error


def test_exit_137_is_memory_too() -> None:
    assert "memory" in str(watch("FAILED: [code=137] x.o\ng++ x.cc\nninja: build stopped").error("l"))


@pytest.mark.parametrize(
    "said",
    [
        "virtual memory exhausted: Cannot allocate memory",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
        "  what():  std::bad_alloc",
        "ptxas fatal   : Memory allocation failure",
    ],
)
def test_so_is_a_compiler_that_gives_up_by_itself(said: str) -> None:
    error = str(watch(f"FAILED: [code=1] x.o\ng++ x.cc\n{said}\nninja: build stopped").error("l"))
    assert "most likely for memory" in error
    assert said.strip() in error


@pytest.mark.parametrize(
    "said",
    [
        "x.cc:3:1: fatal error: error writing to /tmp/ccX.s: No space left on device",
        "/usr/bin/ld: final link failed: No space left on device",
    ],
)
def test_a_full_disk_is_said_to_be_one(said: str) -> None:
    error = watch(f"FAILED: [code=1] x.o\ng++ x.cc\n{said}\nninja: build stopped").error("l")
    assert "the disk is full" in error.what
    assert said in error.expected
    assert "TMPDIR" in error.remedy


def test_a_configure_error_is_quoted() -> None:
    text = "-- The CXX compiler is GNU\nCMake Error at CMakeLists.txt:67 (find):\n  Unable to find python\n"
    error = str(watch(text).error("l"))
    assert "no unit failed" in error
    assert "Unable to find python" in error


def test_a_unit_without_a_description_is_told_by_the_name_in_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, log = io.StringIO(), tmp_path / "steps.jsonl"
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    times = {"asked": 990.0, "start": 990.0, "end": 1000.0, "cpu_seconds": 10.0}
    line = {"unit": "m/a.cuda", "tool": "cicc", "peak_bytes": 1, **times}
    log.write_text(f"{json.dumps(line)}\n")
    seen = UnitWatch(Report(out, github=False), "jit", forecast=Forecast({"m/a.cuda": 10.0, "m/b.cuda": 300.0}, log))
    seen("[1/2] SPARK_UNIT=/root/cached_ops/m/a.cuda.o /bin/sccache nvcc -c /src/a.cu -o /root/cached_ops/m/a.cuda.o ")
    assert "jit: unit 1 of 2, m/a.cuda, about 5 min 00 s left" in out.getvalue()


def test_where_no_compiler_has_run_nothing_is_said_of_the_time_left(tmp_path: Path) -> None:
    out = io.StringIO()
    forecast = Forecast({"csrc/a.cu": 10.0, "csrc/b.cu": 30.0}, tmp_path / "steps.jsonl")
    seen = UnitWatch(Report(out, github=False), "vllm", forecast=forecast)
    seen("[1/2] Building CUDA object CMakeFiles/_C.dir/csrc/a.cu.o")
    seen("[2/2] Building CUDA object CMakeFiles/_C.dir/csrc/b.cu.o")
    assert out.getvalue().splitlines() == ["    [ 50%] vllm: unit 1 of 2, a.cu", "    [100%] vllm: unit 2 of 2, b.cu"]
