"""What the comparison with NVIDIA's tools, and of PTX with machine code, takes for a difference."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from builder.inspect import ObjectFacts, inspect_path

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "agreement.py"
SYMBOLS = "Fatbin elf code:\narch = sm_120f\n\nsymbols:\nFUNC GLOBAL DEFAULT ENTRY   _Z5scalePf\n"
CODE = "Fatbin elf code:\narch = sm_120f\n\n\t\tFunction : _Z5scalePf\n        /*0000*/  EXIT ;\n"


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agreement", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["agreement"] = module
    spec.loader.exec_module(module)
    return module


def printing(folder: Path, symbols: str, code: str) -> str:
    """A stand-in that prints what cuobjdump would of one binary."""
    (folder / "-symbols").write_text(symbols)
    (folder / "-sass").write_text(code)
    tool = folder / "cuobjdump"
    tool.write_text('#!/bin/sh\nexec cat -- "$(dirname "$0")/$1"\n')
    tool.chmod(0o755)
    return str(tool)


def compared(agreement: ModuleType, folder: Path, found: ObjectFacts, symbols: str, code: str) -> list[str]:
    lines: list[str] = agreement.compare(printing(folder, symbols, code), found, folder / "x.o")
    return lines


def test_kernels_are_compared_both_ways(agreement: ModuleType, tmp_path: Path, samples: Path) -> None:
    (found,) = inspect_path(samples / "scale_sm_120f.o").objects
    assert compared(agreement, tmp_path, found, SYMBOLS, CODE) == []
    missed = replace(found, images=tuple(replace(image, kernels=()) for image in found.images))
    assert any("only theirs" in line for line in compared(agreement, tmp_path, missed, SYMBOLS, CODE))
    invented = SYMBOLS.replace("ENTRY", "-")
    assert any("only ours" in line for line in compared(agreement, tmp_path, found, invented, CODE))


def test_a_count_or_an_architecture_that_differs(agreement: ModuleType, tmp_path: Path, samples: Path) -> None:
    (found,) = inspect_path(samples / "scale_sm_120f.o").objects
    for symbols, code in (
        (SYMBOLS, CODE + "        /*0010*/  BPT.TRAP 0x1 ;\n"),
        (SYMBOLS.replace("120f", "120"), CODE.replace("120f", "120")),
    ):
        assert len(compared(agreement, tmp_path, found, symbols, code)) == 2


def test_ptx_is_held_against_its_machine_code(agreement: ModuleType, samples: Path) -> None:
    (found,) = inspect_path(samples / "launch_zstd.so", level="all").objects
    ((text, code),) = agreement.twins(found)
    assert set(text) == {"_Z5scalePf"}
    assert list(agreement.unlike(text, code)) == []
    other = {name: replace(kernel, trap_only=True) for name, kernel in text.items()}
    assert len(list(agreement.unlike(other, code))) == 1
    assert list(agreement.unlike(text, {})) == ["only in the PTX: _Z5scalePf"]
    assert list(agreement.unlike({}, code)) == ["only in the machine code: _Z5scalePf"]
