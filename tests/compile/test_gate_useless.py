"""No hours for code that the target cannot run: the same rules as `inspect`, on real build statements."""

import itertools
from pathlib import Path

import pytest

from builder.compile.gate.order import codes_by_unit, refusal
from builder.compile.gate.useless import codes_in, runs, useless
from builder.inspect.devices import capability, loads

STATEMENT = """\
build CMakeFiles/_C.dir/csrc/{name}.cu.o: CUDA_COMPILER___C_unscanned_Release /src/csrc/{name}.cu || order
  FLAGS = -O3 {flags} $
    --threads=1
  INCLUDES = -I/src
"""
MODULE = """\
cuda_cflags = -O3 $
    -gencode=arch=compute_90a,code=sm_90a
rule cuda_compile
  command = $nvcc $cuda_cflags -c $in -o $out
build /jit/module/x.cuda.o: cuda_compile /src/x.cu
build /jit/module/y.o: compile /src/y.cpp
"""


def code(*names: str) -> str:
    return " ".join(f"-gencode arch=compute_{name.partition('_')[2].rstrip(']')},code={name}" for name in names)


NAMES = [f"{number}{suffix}" for number in (75, 80, 87, 89, 90, 100, 103, 120, 121) for suffix in ("", "a", "f")]


@pytest.mark.parametrize("device", ["12.1", "12.0", "10.0", "9.0"])
def test_the_rules_are_those_of_inspect(device: str) -> None:
    for kind, name in itertools.product(("sm", "compute"), NAMES):
        known = loads("sass" if kind == "sm" else "ptx", f"{kind}_{name}", capability(device))
        if name != "87":  # machine code of a Tegra: no unit of ours asks for it
            assert runs(f"{kind}_{name}", device) == (known != "none"), (kind, name)


def test_units_for_another_device_are_lost_and_code_beside_useful_code_is_spare() -> None:
    codes = {"a.cu": ["sm_89"], "b.cu": ["sm_80", "sm_121a"], "c.cu": ["sm_80", "compute_80"], "d.cpp": []}
    assert useless(codes, "12.1") == (["a.cu"], {"sm_80": ["b.cu", "c.cu"]})


def test_flags_are_read_as_cmake_and_flashinfer_write_them() -> None:
    assert codes_in(code("sm_120", "compute_120")) == ["sm_120", "compute_120"]
    assert codes_in('"--generate-code=arch=compute_121a,code=[compute_121a,sm_121a]"') == ["compute_121a", "sm_121a"]
    assert codes_by_unit({"build.ninja": MODULE}) == {"module/x.cuda": ["sm_90a"], "module/y": []}


def test_ninja_is_refused_a_unit_that_would_be_compiled_for_nothing(tmp_path: Path) -> None:
    good, bad = (STATEMENT.format(name=n, flags=code(c)) for n, c in (("good", "sm_121a"), ("scaled_mm_c2x", "sm_89")))
    (tmp_path / "build.ninja").write_text(good)
    assert refusal(["-C", str(tmp_path), "-j4"], "12.1") == ""
    (tmp_path / "build.ninja").write_text(good + bad)
    why = refusal(["-C", str(tmp_path), "-j4"], "12.1")
    assert why == "no code that a 12.1 device can run is asked for in csrc/scaled_mm_c2x.cu (sm_89)"
    assert refusal(["-C", str(tmp_path), "-t", "clean"], "12.1") == ""


def test_cmakes_own_checks_of_a_compiler_are_let_through() -> None:
    assert not codes_by_unit(
        {"f": "build CMakeFiles/cmTC_1.dir/x.cu.o: CUDA /x.cu\n  FLAGS = -gencode arch=a,code=sm_52\n"}
    )
