from pathlib import Path

from builder.compile.overlay import make_overlay, plan_overlay


def toolkit(root: Path) -> tuple[Path, Path]:
    host, target = root / "host", root / "target"
    for file in ("bin/nvcc", "bin/ptxas", "include/nvvm.h", "nvvm/bin/cicc"):
        (host / file).parent.mkdir(parents=True, exist_ok=True)
        (host / file).write_text(file)
    for file in ("include/cuda.h", "lib/libcudart.so.13", "lib/libcublas.so.13", "lib/libcudadevrt.a"):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        (target / file).write_text(file)
    return host, target


def test_libraries_get_the_names_that_linkers_look_for(tmp_path: Path) -> None:
    links = plan_overlay(*toolkit(tmp_path), "aarch64")
    assert links["lib64/libcudart.so"] == links["lib64/libcudart.so.13"]
    assert "lib64/libcudadevrt.so" not in links
    assert links["targets/sbsa-linux/include"] == Path("../../include")


def test_headers_of_both_parts_are_merged_and_tools_are_single_links(tmp_path: Path) -> None:
    make_overlay(plan_overlay(*toolkit(tmp_path), "aarch64"), tmp_path / "cuda")
    assert (tmp_path / "cuda/include/nvvm.h").read_text() == "include/nvvm.h"
    assert (tmp_path / "cuda/include/cuda.h").read_text() == "include/cuda.h"
    assert not (tmp_path / "cuda/bin").is_symlink()
    assert (tmp_path / "cuda/targets/aarch64-linux/lib/libcublas.so").read_text() == "lib/libcublas.so.13"


def test_a_standing_overlay_is_left_alone_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    links = plan_overlay(*toolkit(tmp_path), "x86_64")
    make_overlay(links, tmp_path / "cuda")
    before = (tmp_path / "cuda/bin/nvcc").lstat().st_mtime_ns
    make_overlay(links, tmp_path / "cuda")
    assert (tmp_path / "cuda/bin/nvcc").lstat().st_mtime_ns == before
    (tmp_path / "cuda/bin/ptxas").unlink()
    make_overlay(links, tmp_path / "cuda")
    assert (tmp_path / "cuda/bin/ptxas").read_text() == "bin/ptxas"


def test_a_changed_link_is_replaced_while_all_others_stay(tmp_path: Path) -> None:
    links = plan_overlay(*toolkit(tmp_path), "x86_64")
    make_overlay(links, tmp_path / "cuda")
    before = (tmp_path / "cuda/bin/nvcc").lstat().st_ino
    (tmp_path / "other.so").write_text("other")
    make_overlay({**links, "lib64/libcublas.so": tmp_path / "other.so"}, tmp_path / "cuda")
    assert (tmp_path / "cuda/lib64/libcublas.so").read_text() == "other"
    assert (tmp_path / "cuda/bin/nvcc").lstat().st_ino == before
    assert not list((tmp_path / "cuda").rglob(".*"))
