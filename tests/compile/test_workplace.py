"""A build folder belongs to the toolchain that built in it, laid out as it was."""

from dataclasses import replace
from pathlib import Path

import pytest

from builder.compile.host import Compilers
from builder.compile.toolchain import Toolchain
from builder.compile.workplace import forget_other_toolchain


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    return Toolchain(
        key="k",
        kind="index",
        machine="aarch64",
        cuda="13.0.2",
        torch="2.11.0",
        root=tmp_path / "toolchain",
        cuda_home=tmp_path / "cuda",
        torch_dir=tmp_path / "torch",
        python=tmp_path / "python",
        site=tmp_path / "site",
        compilers=Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False),
        layout="one",
    )


def test_objects_stay_for_the_same_toolchain_and_go_for_another(tmp_path: Path, toolchain: Toolchain) -> None:
    folder = tmp_path / "src" / "vllm"
    folder.parent.mkdir()
    forget_other_toolchain(folder, toolchain)
    (folder / "x.o").touch()
    forget_other_toolchain(folder, toolchain)
    assert (folder / "x.o").exists()
    for other in (replace(toolchain, layout="two"), replace(toolchain, root=tmp_path / "other")):
        forget_other_toolchain(folder, other)
        assert not (folder / "x.o").exists()
        (folder / "x.o").touch()
