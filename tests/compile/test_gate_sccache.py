"""The gate below a real sccache and a real GCC: steps are seen, named and measured; hits run none."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builder.compile.cache import _environment
from builder.compile.governed import TEXTS
from builder.compile.overlay import make_overlay
from builder.compile.stubs import Stub, gate_folder, stub_folder
from builder.context import Context

pytestmark = [pytest.mark.compile]


@pytest.fixture
def gated(context: Context, tmp_path: Path) -> Iterator[tuple[Callable[[str], None], Path]]:
    """Compiles a source through sccache, and where the gate's log is."""
    sccache = shutil.which("sccache")
    if sccache is None:
        pytest.skip("no sccache in PATH")
    root, log = tmp_path / "root", tmp_path / "steps.jsonl"
    named = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True)
    real = Path(named.stdout.strip())
    stubs = stub_folder(context.store, root, {"cc1plus": Stub("cc1plus", str(real))})
    make_overlay({"gate": gate_folder(context.store)}, root / "links")
    make_overlay({"python3": Path(sys.executable)}, root / "python/bin")
    make_overlay({"/".join(real.parts[-3:]): stubs / "cc1plus"}, root / "gcc")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | _environment(context)
    env |= {"SCCACHE_SERVER_UDS": str(tmp_path / "s"), "COMPILER_PATH": str(root / "gcc")}
    env |= {"SPARK_GATE": str(tmp_path / "gate"), "SPARK_GATE_LOG": str(log)}
    env |= {"SPARK_GATE_PREPROCESSED": str(tmp_path / TEXTS)}
    subprocess.run([sccache, "--start-server"], env=env, capture_output=True, check=True)

    def compile_(text: str) -> None:
        (tmp_path / "x.cc").write_text(text)
        unit = {"SPARK_UNIT": "CMakeFiles/_C.dir/csrc/x.cc.o"}
        subprocess.run([sccache, "g++", "-c", "x.cc", "-o", "x.o"], cwd=tmp_path, env=env | unit, check=True)

    yield compile_, log
    subprocess.run([sccache, "--stop-server"], env=env, capture_output=True, check=False)


def steps(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_miss_is_one_measured_step_of_its_unit_and_a_hit_is_none(gated: tuple[Callable[[str], None], Path]) -> None:
    compile_, log = gated
    compile_("#include <string>\nstd::string s() { return {}; }\n")
    (step,) = steps(log)
    assert (step["unit"], step["tool"], step["exit"]) == ("csrc/x.cc", "cc1plus", 0)
    assert step["peak_bytes"] > 20_000_000
    assert step["cpu_seconds"] > 0
    texts = steps(log.with_name(TEXTS))  # the first of them is the cache's own, by which it tells compilers apart
    assert {text["unit"] for text in texts} == {"csrc/x.cc"}
    assert texts[-1]["cpu_seconds"] > 0
    compile_("#include <string>\nstd::string s() { return {}; }\n")
    assert len(steps(log)) == 1
    assert len(steps(log.with_name(TEXTS))) == len(texts) + 1  # the cache finds an object by its preprocessed text
    compile_("int other;\n")
    assert len(steps(log)) == 2


def test_a_source_that_is_wrong_fails_as_it_would_without(gated: tuple[Callable[[str], None], Path]) -> None:
    compile_, log = gated
    with pytest.raises(subprocess.CalledProcessError):
        compile_("int other\n")
    assert [step["exit"] for step in steps(log)] == [1]
