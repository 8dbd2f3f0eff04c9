"""The longest units first, on the build statements that CMake and FlashInfer write."""

import os
import re
from pathlib import Path

import pytest

from builder.compile.gate.order import ordered, put_in_order, seconds_by_unit
from builder.compile.learned import lines
from builder.compile.ninjafile import reader, units_in

VLLM = (Path(__file__).parent / "data/vllm.ninja").read_text()
RULES = """\
# Rules
rule CUDA_COMPILER___C_unscanned_Release
  depfile = $DEP_FILE
  command = ${LAUNCHER}${CODE_CHECK}/cuda/bin/nvcc $DEFINES $FLAGS -c $in -o $out
rule CXX_MODULE_LIBRARY_LINKER___C_Release
  command = $PRE_LINK && /usr/bin/g++ -shared -o $TARGET_FILE $in
"""
MODULE = """\
cxx = sccache g++
rule compile
  command = $cxx -c $in -o $out

rule link
  command = $cxx $in -o $out

build /root/jit/{name}/a.o: compile /root/src/a.cpp
build /root/jit/{name}/b.cuda.o: compile /root/src/b.cu

build /root/jit/{name}/{name}.so: link /root/jit/{name}/a.o /root/jit/{name}/b.cuda.o
"""


def objects(text: str) -> list[str]:
    return re.findall(r"^build (\S+\.o):", text, re.MULTILINE)


def units(text: str) -> set[str]:
    return {unit.target for unit in units_in(text, "/", lambda _: "")}


def test_the_longest_of_a_real_build_come_first_by_what_ships() -> None:
    seconds = seconds_by_unit(lines({}))
    after = ordered({"build.ninja": VLLM}, seconds)["build.ninja"]
    names = [name.rpartition(".dir/")[2].removesuffix(".o") for name in objects(after)]
    assert names[0] in {"csrc/attention/paged_attention_v2.cu", "csrc/quantization/w8a8/cutlass/scaled_mm_c2x.cu"}
    known = [seconds[name] for name in names if name in seconds]
    assert known == sorted(known, reverse=True)
    assert len(known) > 80


def test_nothing_is_lost_and_twice_is_the_same_as_once() -> None:
    files = {"build.ninja": VLLM, "rules.ninja": RULES}
    once = ordered(files, seconds_by_unit(lines({})))
    assert sorted(once["build.ninja"].splitlines()) == sorted(VLLM.splitlines())
    assert units(once["build.ninja"]) == units(VLLM)
    assert ordered(once, seconds_by_unit(lines({}))) == once


def test_what_belongs_to_a_statement_moves_with_it_and_all_others_stay_where_they_are() -> None:
    first = "build a.o: cc a.cc || x\n  FLAGS = -A $\n    more\n  pool = p\n"
    second = "build b.o: cc b.cc\n  FLAGS = -B\n"
    text = "top = 1\n{}\n# next\nbuild lib.so: ld a.o\n  L = 1\n{}default lib.so\n"
    after = ordered({"f": text.format(first, second)}, {"b": 9.0, "a": 1.0})["f"]
    assert after == text.format(second, first)


def test_compilers_are_told_their_object_and_linkers_are_not() -> None:
    rules = ordered({"build.ninja": VLLM, "rules.ninja": RULES}, {})["rules.ninja"]
    assert "  command = SPARK_UNIT=$out ${LAUNCHER}${CODE_CHECK}/cuda/bin/nvcc" in rules
    assert "  command = $PRE_LINK" in rules


def test_modules_with_the_longest_unit_are_taken_in_first() -> None:
    top = "ninja_required_version = 1.3\nsubninja one\nsubninja two\n"
    files = {"build.ninja": top, "one": MODULE.format(name="one"), "two": MODULE.format(name="two")}
    after = ordered(files, {"two/b.cuda": 90.0, "one/b.cuda": 5.0, "one/a": 1.0, "two/a": 1.0})
    assert after["build.ninja"] == "ninja_required_version = 1.3\nsubninja two\nsubninja one\n"
    assert objects(after["one"]) == ["/root/jit/one/b.cuda.o", "/root/jit/one/a.o"]


def test_files_are_rewritten_in_place_with_their_own_times(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(f"include rules.ninja\n{VLLM}")
    (tmp_path / "rules.ninja").write_text(RULES)
    (tmp_path / "learned.tsv").write_text("cicc\tcsrc/cache_kernels.cu\tsm_121a\t1\t9999\n")
    os.utime(tmp_path / "build.ninja", (5, 5))
    put_in_order(["-C", str(tmp_path), "-j2", "_C"], str(tmp_path / "learned.tsv"))
    text = (tmp_path / "build.ninja").read_text()
    assert objects(text)[0].endswith("csrc/cache_kernels.cu.o")
    assert (tmp_path / "build.ninja").stat().st_mtime == 5
    assert "SPARK_UNIT" in (tmp_path / "rules.ninja").read_text()
    assert len(units_in(text, "/", reader(tmp_path))) == len(units(VLLM))


def test_ninja_without_arguments_builds_what_is_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("build.ninja").write_text(RULES + VLLM)
    put_in_order([], "")
    assert "SPARK_UNIT" in Path("build.ninja").read_text()


def test_tools_of_ninja_and_folders_without_a_build_file_are_left_alone(tmp_path: Path) -> None:
    put_in_order(["-C", str(tmp_path), "all"], "")
    (tmp_path / "build.ninja").write_text(RULES + VLLM)
    put_in_order(["-C", str(tmp_path), "-t", "clean"], "")
    put_in_order(["--version"], "")
    assert (tmp_path / "build.ninja").read_text() == RULES + VLLM
