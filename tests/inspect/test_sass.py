"""CASE 2 and the instruction classes, on code that the pinned compiler made."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from builder.inspect import KernelFacts, inspect_path
from builder.inspect.elf import CodeSections
from builder.inspect.sass import KernelScan, scan


def one(path: Path, name: str) -> KernelFacts:
    return next(kernel for kernel in inspect_path(path).objects[0].kernels if name in kernel.name)


@pytest.mark.parametrize("name", ["guard_sm_121a.o", "guard_ptx_121a.o"])
@pytest.mark.parametrize(
    ("kernel", "trap_only", "empty"),
    [
        ("12guarded_trap", True, False),
        ("19guarded_printf_trap", True, False),
        ("13guarded_empty", False, True),
        ("7checked", False, False),
        ("15both_paths_trap", True, False),
    ],
)
def test_a_wrong_guard_is_seen(samples: Path, name: str, kernel: str, *, trap_only: bool, empty: bool) -> None:
    found = one(samples / name, kernel)
    assert (found.trap_only, found.empty) == (trap_only, empty)


@pytest.mark.parametrize("kernel", ["12guarded_trap", "19guarded_printf_trap", "13guarded_empty", "7checked"])
def test_the_right_architecture_passes(samples: Path, kernel: str) -> None:
    found = one(samples / "guard_sm_120.o", kernel)
    assert not found.trap_only
    assert not found.empty


@pytest.mark.parametrize(
    "name",
    ["refuse_sm_80.cubin", "refuse_sm_90a.cubin", "refuse_sm_120.cubin", "refuse_sm_121a.cubin", "refuse_ptx_121a.ptx"],
)
@pytest.mark.parametrize(
    ("kernel", "trap_only"),
    [("7refusesPf", True), ("20refuses_in_assembler", True), ("19refuses_before_work", True), ("6checks", False)],
)
def test_a_kernel_that_prints_and_breaks_is_seen(samples: Path, name: str, kernel: str, *, trap_only: bool) -> None:
    found = one(samples / name, kernel)
    assert (found.trap_only, found.empty) == (trap_only, False)
    assert found.instructions()["BPT.TRAP"] == 1


PRINTING = ("prints_sm_80.cubin", "prints_sm_90.cubin", "prints_sm_121a.cubin", "prints_ptx_121a.ptx")


@pytest.mark.parametrize("name", PRINTING)
@pytest.mark.parametrize(
    ("kernel", "empty"),
    [
        ("3runI7Guarded", True),
        ("11prints_once", True),
        ("16prints_and_works", False),
        ("16prints_and_calls", False),
        ("14adds_or_prints", False),
    ],
)
def test_a_kernel_that_only_prints_computes_nothing(samples: Path, name: str, kernel: str, *, empty: bool) -> None:
    """CUTLASS's kernels do so where they were compiled without the architecture's own features."""
    found = one(samples / name, kernel)
    assert (found.trap_only, found.empty) == (False, empty)


def test_calls_by_address_in_an_image_without_printf_are_work(samples: Path, tmp_path: Path) -> None:
    data = (samples / "prints_sm_121a.cubin").read_bytes()
    (tmp_path / "other.cubin").write_bytes(data.replace(b"\0vprintf\0", b"\0another\0"))
    assert not one(tmp_path / "other.cubin", "3runI7Guarded").empty


def test_calls_by_address_in_an_image_that_calls_more_than_printf_may_be_work(samples: Path, tmp_path: Path) -> None:
    data = bytearray((samples / "prints_sm_121a.cubin").read_bytes())
    name = data.index(b"\0.nv.reservedSmem.offset0\0")
    data[name + 1 : name + 5] = b"free"
    (tmp_path / "other.cubin").write_bytes(data)
    assert not one(tmp_path / "other.cubin", "3runI7Guarded").empty


@pytest.mark.parametrize("word", [0x782D, 0x782E])
def test_a_kernel_that_only_waits_for_another_computes_nothing(word: int) -> None:
    """PREEXIT and ACQBULK, which griddepcontrol becomes: a guard left the rest out."""
    assert scanned((word, 0), EXIT).empty
    assert not scanned((word, 0), (0x7986, 0), EXIT).empty, "it stores something"


TRAP, INTERRUPT = (0x000000040000795C, 0x000FEA0000300000), (0x000000040000795C, 0x000FEA0000400000)
EXIT, JUMP, JUMP_IF_NOT = (0x794D, 0x000FEA0003800000), (0x10794A, 0x000FEA0003800000), (0x10894A, 0x000FEA0003800000)
SKIP_IF_NOT = (0x0000000000048947, 0x000FEA0003800000)
"""Words that nvdisasm reads as BPT.TRAP, BPT.INT, EXIT, JMP, @!P0 JMP and @!P0 BRA over the next instruction."""


def scanned(*words: tuple[int, int]) -> KernelScan:
    image = b"".join(struct.pack("<QQ", *word) for word in words)
    (found,) = scan(image, CodeSections(("kernel",), np.array([0]), np.array([len(image)])), 121)
    return found


def test_a_breakpoint_of_a_debugger_is_no_end_of_a_kernel() -> None:
    assert scanned(INTERRUPT, EXIT).trap_only
    assert scanned(INTERRUPT, EXIT).counts == KernelScan().counts
    assert scanned(TRAP, EXIT).trap_only


@pytest.mark.parametrize("jump", [JUMP, JUMP_IF_NOT])
def test_a_jump_by_address_may_reach_the_exit(jump: tuple[int, int]) -> None:
    """A guarded one goes on besides; where either goes to, its words alone do not say."""
    assert not scanned(SKIP_IF_NOT, TRAP, jump, EXIT).trap_only
    assert scanned(TRAP, jump, EXIT).trap_only


@pytest.mark.parametrize(
    ("statement", "trap_only"),
    [
        ("brkpt;", True),
        ("trap ;", True),
        ("brkpt\t;", True),
        ("@%p1 brkpt;", False),
        ("@!%p1 bra $L1;\n\tbrkpt;\n$L1:", False),
        ("call brkpt;", False),
        ("bra $L1;\n$L1:\n\tbrkpt;", True),
    ],
)
def test_a_breakpoint_in_ptx(tmp_path: Path, statement: str, *, trap_only: bool) -> None:
    path = tmp_path / "one.ptx"
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry one()\n{{\n\t{statement}\n\tret;\n}}\n"
    path.write_text(text)
    assert one(path, "one").trap_only is trap_only


@pytest.mark.parametrize("arch", ["75", "80", "90a", "121a"])
@pytest.mark.parametrize("kernel", ["calls", "table", "diverges"])
def test_paths_through_calls_tables_and_barriers_reach_the_exit(samples: Path, arch: str, kernel: str) -> None:
    found = one(samples / f"flow_sm_{arch}.cubin", kernel)
    assert not found.trap_only
    assert found.instructions()["BPT.TRAP"] == 1


@pytest.mark.parametrize("arch", ["75", "80", "90a", "121a"])
def test_a_loop_without_a_way_out_never_exits(samples: Path, arch: str) -> None:
    found = one(samples / f"flow_sm_{arch}.cubin", "forever")
    assert found.trap_only
    assert found.instructions()["BPT.TRAP"] == 0


CLASSES_BY_ARCH = {
    "75": {"HMMA": 1, "IMMA": 1},
    "80": {"HMMA": 2, "IMMA": 1},
    "89": {"HMMA": 2, "IMMA": 1, "QMMA": 1, "F2FP.FP8": 4},
    "90a": {"HMMA": 2, "IMMA": 1, "HGMMA": 1, "F2FP.FP8": 4},
    "100a": {"HMMA": 2, "IMMA": 1, "UTCMMA": 1, "F2FP.FP8": 4, "F2FP.E2M1": 2},
    "120f": {"HMMA": 2, "IMMA": 1, "QMMA": 2, "OMMA": 1, "F2FP.FP8": 4, "F2FP.E2M1": 2},
    "121a": {"HMMA": 2, "IMMA": 1, "QMMA": 2, "OMMA": 1, "F2FP.FP8": 4, "F2FP.E2M1": 2},
}


@pytest.mark.parametrize(("arch", "expected"), CLASSES_BY_ARCH.items())
def test_every_class_is_counted(samples: Path, arch: str, expected: dict[str, int]) -> None:
    instructions = inspect_path(samples / f"mma_sm_{arch}.cubin").objects[0].code[0].instructions
    assert {name: count for name, count in (instructions or {}).items() if count} == expected


def test_ptx_shows_what_its_machine_code_will(samples: Path) -> None:
    text = inspect_path(samples / "mma_ptx_121a.ptx").objects[0]
    code = inspect_path(samples / "mma_sm_121a.cubin").objects[0]
    assert {k.name: k.counts for k in text.kernels} == {k.name: k.counts for k in code.kernels}


def test_a_device_function_is_no_kernel_but_its_code_counts(samples: Path) -> None:
    found = inspect_path(samples / "relocatable.o").objects[0]
    assert len(found.kernels) == 4
    assert found.code[0].instructions is not None
    assert found.code[0].instructions["BPT.TRAP"] == 2
    assert sum(kernel.instructions()["BPT.TRAP"] for kernel in found.kernels) == 1
