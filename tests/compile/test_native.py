"""The door before cmake, driven as upstream's setup.py drives it, with a cmake that notes what it is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builder.compile.host import Compilers
from builder.compile.native import Door, Left, Rule, native_key
from builder.compile.toolchain import Toolchain
from builder.git import Entry
from builder.store import Store

RULE = Rule(apart=("pkg/*.py", "docs/*"), unless=("pkg/third_party/*",), varies=("-DPATHS=", "-DPOOLS"))
FAKE = """#!/bin/sh
echo "$@" >> {log}
[ "$1" = --install ] && mkdir -p "$4/pkg" && echo "object of $6" > "$4/pkg/$6.so"
exit 0
"""


@pytest.fixture
def toolchain(tmp_path: Path) -> Toolchain:
    """One whose cmake only notes its arguments and installs a file."""
    root = tmp_path / "toolchain"
    (root / "bin").mkdir(parents=True)
    (root / "bin/cmake").write_text(FAKE.format(log=tmp_path / "calls"))
    (root / "bin/cmake").chmod(0o755)
    compilers = Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False)
    return Toolchain(
        key="k",
        kind="index",
        machine="aarch64",
        cuda="13.0.2",
        torch="2.11.0",
        root=root,
        cuda_home=root / "cuda",
        torch_dir=root / "torch",
        python=Path(sys.executable),
        site=root / "site",
        compilers=compilers,
    )


class Upstream:
    """What setup.py does with cmake, in a scratch folder of its own each time."""

    def __init__(self, tmp_path: Path, toolchain: Toolchain, *, key: str = "native-1", share: bool = False) -> None:
        self.calls = tmp_path / "calls"
        self.calls.write_text("")
        self.number = len(list(tmp_path.glob("run-*")))
        self.folder = tmp_path / f"run-{self.number}"
        self.folder.mkdir()
        self.door = Door(Store(tmp_path / "store"), key, self.folder / "door")
        self.env = dict(os.environ) | self.door.environment(toolchain, RULE, share=share)

    def cmake(self, *words: str) -> int:
        return subprocess.run(["cmake", *words], cwd=self.folder, env=self.env, check=False).returncode

    def all(self, *arguments: str) -> None:
        assert self.cmake("--version") == 0
        assert self.cmake("/src", "-G", "Ninja", *arguments) == 0
        assert self.cmake("--build", ".", "-j=2", "--target=_C") == 0
        assert self.cmake("--install", ".", "--prefix", str(self.folder / "lib"), "--component", "_C") == 0
        assert (self.folder / "lib/pkg/_C.so").read_text() == "object of _C\n"

    def asked(self) -> list[str]:
        return [line.split()[0] for line in self.calls.read_text().splitlines()]


def test_a_second_build_from_the_same_sources_calls_no_cmake_and_installs_the_same(
    tmp_path: Path, toolchain: Toolchain
) -> None:
    first = Upstream(tmp_path, toolchain)
    first.all("-DA=1", "-DPATHS=/one", "-DPOOLS=compile=2")
    assert first.asked() == ["--version", "/src", "--build", "--install"]
    assert not first.door.skipped
    first.door.keep({})
    second = Upstream(tmp_path, toolchain)
    second.all("-DA=1", "-DPATHS=/other", "-DPOOLS=compile=8")
    assert second.asked() == ["--version"]
    assert second.door.skipped


CACHING = """#!/bin/sh
[ -f CMakeCache.txt ] && echo "with $(cat CMakeCache.txt)" >> {log} || echo without >> {log}
case "$2" in cut) kill -9 $PPID $$ ;; bad) exit 1 ;; esac
echo "$2" > CMakeCache.txt
"""


@pytest.mark.parametrize("end", ["cut", "bad"])
def test_a_configure_that_did_not_end_well_is_begun_anew(tmp_path: Path, toolchain: Toolchain, end: str) -> None:
    """What it generated is newer than what CMake knows of it, and would be taken for an earlier tree's."""
    (toolchain.root / "bin/cmake").write_text(CACHING.format(log=tmp_path / "calls"))
    build = Upstream(tmp_path, toolchain)
    assert [build.cmake("/src", word) == 0 for word in ("-DA=1", "-DA=2", end, "-DA=3", "-DA=4")] == [1, 1, 0, 1, 1]
    assert build.asked() == ["without", "with", "with", "without", "with"]


def test_other_arguments_configure_and_compile_anew(tmp_path: Path, toolchain: Toolchain) -> None:
    first = Upstream(tmp_path, toolchain)
    first.all("-DA=1")
    first.door.keep({})
    second = Upstream(tmp_path, toolchain)
    second.all("-DA=2")
    assert second.asked() == ["--version", "/src", "--build", "--install"]


def test_another_key_finds_nothing_kept(tmp_path: Path, toolchain: Toolchain) -> None:
    first = Upstream(tmp_path, toolchain)
    first.all()
    first.door.keep({})
    assert Upstream(tmp_path, toolchain, key="native-2").door.kept is None


def test_parts_that_are_files_of_the_tree_are_not_kept(tmp_path: Path, toolchain: Toolchain) -> None:
    """Such a part changes with a file that the key leaves out."""
    first = Upstream(tmp_path, toolchain)
    first.all()
    first.door.keep({"pkg/_C.so": Entry(0o100644, "1")})
    assert first.door.kept is None


def test_a_share_is_configured_and_its_build_is_left_to_us(tmp_path: Path, toolchain: Toolchain) -> None:
    share = Upstream(tmp_path, toolchain, share=True)
    assert share.cmake("/src", "-G", "Ninja") == 0
    assert share.cmake("--build", ".", "-j=2", "--target=_C", "--target=_moe_C") == 75
    assert share.door.left == Left(share.folder, ("_C", "_moe_C"))
    assert share.asked() == ["/src"]


def test_a_share_compiles_though_the_parts_are_kept_here(tmp_path: Path, toolchain: Toolchain) -> None:
    first = Upstream(tmp_path, toolchain)
    first.all("-DA=1")
    first.door.keep({})
    share = Upstream(tmp_path, toolchain, share=True)
    assert share.door.kept is not None
    assert share.cmake("/src", "-G", "Ninja", "-DA=1") == 0
    assert share.cmake("--build", ".", "-j=2", "--target=_C") == 75
    assert share.door.left == Left(share.folder, ("_C",))


def test_a_build_that_fails_keeps_nothing(tmp_path: Path, toolchain: Toolchain) -> None:
    broken = Upstream(tmp_path, toolchain)
    (toolchain.bin / "cmake").write_text("#!/bin/sh\nexit 3\n")
    assert broken.cmake("/src") == 3
    assert broken.cmake("--install", ".", "--prefix", "lib", "--component", "_C") == 3
    broken.door.keep({})
    assert broken.door.kept is None


FILES = {"pkg/a.py": "1", "csrc/x.cu": "2", "pkg/third_party/b.py": "3", "docs/c.md": "4"}


def key_with(**changes: str) -> str:
    files = {
        path: Entry(0o100644, changes.get(path.rpartition("/")[2].replace(".", "_"), oid))
        for path, oid in FILES.items()
    }
    return native_key(files, RULE, ["toolchain"])


@pytest.mark.parametrize(("change", "same"), [("a_py", True), ("c_md", True), ("x_cu", False), ("b_py", False)])
def test_the_key_changes_with_what_a_compiler_or_a_build_script_reads_and_with_nothing_else(
    change: str, *, same: bool
) -> None:
    assert (key_with(**{change: "9"}) == key_with()) is same


def test_the_key_changes_with_everything_else_that_reaches_the_parts() -> None:
    files = {path: Entry(0o100644, oid) for path, oid in FILES.items()}
    assert native_key(files, RULE, ["one"]) != native_key(files, RULE, ["two"])
    assert native_key(files, RULE, []) != native_key(files, Rule(apart=()), [])
