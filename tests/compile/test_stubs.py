"""Stubs in place of programs: same text everywhere, everything else untouched."""

from pathlib import Path

from builder.compile.overlay import make_overlay, plan_mirror
from builder.compile.stubs import TOOLS, Stub, gate_folder, gated, stub_folder
from builder.store import Store


def test_every_governed_program_has_its_stub_and_stays_beside_it(tmp_path: Path) -> None:
    cuda = tmp_path / "installed"
    for place in [
        *TOOLS.values(),
        "bin/nvcc",
        "nvvm/libdevice/libdevice.10.bc",
        "include/cuda.h",
        "lib64/libcudart.so",
    ]:
        (cuda / place).parent.mkdir(parents=True, exist_ok=True)
        (cuda / place).write_text(place)
    make_overlay(gated(plan_mirror(cuda), tmp_path / "stubs"), tmp_path / "cuda")
    for tool, place in TOOLS.items():
        assert (tmp_path / "cuda" / place).readlink() == tmp_path / "stubs" / tool
        assert (tmp_path / "cuda" / f"{place}-real").read_text() == place
    assert (tmp_path / "cuda/nvvm/libdevice/libdevice.10.bc").is_file()
    assert (tmp_path / "cuda/include/cuda.h").is_file()
    assert not (tmp_path / "cuda/bin").is_symlink()


def test_an_older_layout_is_replaced(tmp_path: Path) -> None:
    make_overlay({"nvvm": tmp_path}, tmp_path / "cuda")
    make_overlay({"nvvm/bin/cicc": tmp_path}, tmp_path / "cuda")
    assert (tmp_path / "cuda/nvvm/bin/cicc").is_symlink()


def test_a_stub_tells_versions_of_its_program_apart_and_stores_not_at_all(tmp_path: Path) -> None:
    root, program = Path("/canonical"), "/canonical/cuda/bin/ptxas-real"
    one = stub_folder(Store(tmp_path / "a"), root, {"ptxas": Stub("ptxas", program, 100)})
    two = stub_folder(Store(tmp_path / "b"), root, {"ptxas": Stub("ptxas", program, 100)})
    new = stub_folder(Store(tmp_path / "b"), root, {"ptxas": Stub("ptxas", program, 101)})
    assert (one / "ptxas").read_bytes() == (two / "ptxas").read_bytes() != (new / "ptxas").read_bytes()
    assert (one / "ptxas").stat().st_mode & 0o111


def test_the_gate_is_compiled_once(tmp_path: Path) -> None:
    folder = gate_folder(Store(tmp_path))
    assert list((folder / "gate/__pycache__").glob("step.*.pyc"))
    assert gate_folder(Store(tmp_path)) == folder
