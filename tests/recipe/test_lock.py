from __future__ import annotations

import re
from pathlib import Path

import pytest

from builder.errors import RecipeError
from builder.fetch import Candidate
from builder.model import LockedFile
from builder.recipe import Want, for_role, load, lock_text, locked, make_lock, read_lock, read_wants, write_lock

D = "ab" * 32
BOTH = ("aarch64", "x86_64")


def wheel(name: str, version: str, tag: str, digest: str = D, size: int = 5) -> Candidate:
    return Candidate(f"{name}-{version}-{tag}.whl", version, digest, size)


def native(name: str, version: str, python: str = "py3-none", libc: str = "manylinux_2_28") -> list[Candidate]:
    return [wheel(name, version, f"{python}-{libc}_{machine}") for machine in BOTH]


def want(project: str, specifier: str = "", role: str = "build", pythons: tuple[str, ...] = ("3.11", "3.12")) -> Want:
    return Want(project, specifier, role, pythons, 39)


def names(files: tuple[LockedFile, ...]) -> list[str]:
    return [file.filename for file in files]


def test_one_file_serves_several_roles() -> None:
    files = [wheel("tool", "1.0", "py3-none-any")]
    (only,) = make_lock([want("tool"), want("tool", role="target")], lambda _: files)
    assert only.roles == ("build-aarch64", "build-x86_64", "target-aarch64", "target-x86_64")


def test_each_machine_and_python_gets_its_wheel() -> None:
    files = native("safe", "3.0", "cp311-cp311") + native("safe", "3.0", "cp312-abi3")
    lock = make_lock([want("safe", pythons=("3.11", "3.12", "3.13"))], lambda _: files)
    assert len(lock) == 4
    assert names(for_role(lock, "build-x86_64", "3.11")) == ["safe-3.0-cp311-cp311-manylinux_2_28_x86_64.whl"]
    assert names(for_role(lock, "build-x86_64", "3.13")) == ["safe-3.0-cp312-abi3-manylinux_2_28_x86_64.whl"]


def test_the_newest_version_complete_for_all_machines_is_taken() -> None:
    files = [*native("tool", "1.0"), *native("tool", "1.1"), native("tool", "2.0")[0], *native("tool", "3.0rc1")]
    assert {file.version for file in make_lock([want("tool")], lambda _: files)} == {"1.1"}


def test_a_wheel_for_a_newer_glibc_than_allowed_is_not_taken() -> None:
    files = native("tool", "1.0") + native("tool", "2.0", libc="manylinux_2_41")
    assert {file.version for file in make_lock([want("tool")], lambda _: files)} == {"1.0"}


def test_old_platform_names_count() -> None:
    files = [wheel("t", "1", "py3-none-manylinux1_x86_64"), wheel("t", "1", "py3-none-manylinux2014_aarch64")]
    assert len(make_lock([want("t")], lambda _: files)) == 2


def test_the_order_of_the_index_does_not_matter() -> None:
    files = native("tool", "1.0") + native("tool", "1.0", libc="manylinux2014") + native("tool", "0.9")
    first = make_lock([want("tool")], lambda _: files)
    assert make_lock([want("tool")], lambda _: files[::-1]) == first


def test_all_wishes_that_cannot_be_met_are_told() -> None:
    index = {"half": [native("half", "1.0")[0]], "bare": [wheel("bare", "1.0", "py3-none-any", digest="")], "gone": []}
    with pytest.raises(RecipeError) as caught:
        make_lock([want("half"), want("bare"), want("gone", "==2")], lambda name: index[name])
    message = str(caught.value)
    assert "half (build): none of 1.0 has a wheel for all of x86_64, aarch64 and Python 3.11, 3.12" in message
    assert "bare (build): the index has no wheel of such a version with a digest" in message
    assert "gone==2 (build)" in message


def test_sdists_and_odd_names_are_stepped_over() -> None:
    odd = [Candidate("tool-9.tar.gz", "9", D, 5), Candidate("tool.whl", "9", D, 5), *native("tool", "1.0")]
    assert len(make_lock([want("tool")], lambda _: odd)) == 2


def test_a_lock_written_is_the_lock_read(tmp_path: Path) -> None:
    lock = make_lock([want("b"), want("a", role="host")], lambda name: native(name, "1.0"))
    write_lock(tmp_path / "l.toml", reversed(lock))
    assert read_lock(tmp_path / "l.toml") == lock
    assert lock_text(lock) == lock_text(reversed(lock))


GOOD = f"""format = 1
[[file]]
project = "tool"
version = "1.0"
filename = "tool-1.0-py3-none-any.whl"
sha256 = "{D}"
size = 5
roles = ["build-x86_64"]
"""
ENTRY = GOOD.partition("\n")[2]
LABEL = "[[file]] tool-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD.replace("format = 1", "format = 2"), "format: input should be 1"),
        (GOOD.replace("format = 1\n", ""), "key 'format' is missing"),
        (GOOD.replace("size = 5", "size = 0"), f"{LABEL}: size: input should be greater than 0"),
        (GOOD.replace("size", "sise"), f"{LABEL}: unknown key 'sise', did you mean 'size'?"),
        (GOOD.replace(D, "ab"), f"{LABEL}: sha256: 'ab' is not a SHA-256: 64 lower-case hex digits"),
        (GOOD.replace("build-x86_64", "build-arm"), f"{LABEL}: roles[0]: input should be 'host-x86_64'"),
        (GOOD.replace('["build-x86_64"]', "[]"), f"{LABEL}: roles: must not be empty"),
        (GOOD.replace('version = "1.0"', 'version = "1.1"'), f"{LABEL}: is not of tool 1.1"),
        (GOOD.replace('project = "tool"', 'project = "other"'), f"{LABEL}: is not of other 1.0"),
        (GOOD + ENTRY, f"{LABEL}: named twice"),
        (GOOD.replace("tool-1.0-py3-none-any.whl", "../tool.whl"), "is not a wheel's file name"),
        ("format = 1\n", "key 'file' is missing"),
        ("format = ", "not valid TOML: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_lock_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "l.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=r"l\.toml") as caught:
        read_lock(path)
    assert told in str(caught.value)


def test_an_absent_lock_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read: No such file"):
        read_lock(tmp_path / "none.toml")


def test_a_lock_of_another_torch_or_cuda_is_refused(root: Path) -> None:
    torch = LockedFile("torch", "2.12.0", "torch-2.12.0-py3-none-any.whl", D, 5, ("target-aarch64",))
    write_lock(root / "recipes/locks/small.toml", [torch])
    with pytest.raises(RecipeError) as caught:
        locked(load("good", root), root)
    assert "[[file]] torch: recipe good wants 2.11.0, the lock has 2.12.0" in str(caught.value)
    assert "[[file]] nvidia-cuda-nvcc: recipe good wants 13.0, the lock has none" in str(caught.value)


WANTS = """target_python = "3.12"
build_pythons = ["3.11", "3.13"]
glibc = 39
[[want]]
project = "torch"
version = "==2.11.0"
role = "target"
[[want]]
project = "ninja"
version = ">=1.13"
role = "build"
"""


def test_wishes_know_their_pythons(tmp_path: Path) -> None:
    (tmp_path / "w.in.toml").write_text(WANTS)
    torch, ninja = read_wants(tmp_path / "w.in.toml")
    assert (torch.pythons, ninja.pythons, ninja.specifier) == (("3.12",), ("3.11", "3.13"), ">=1.13")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("==2.11.0", "=2.11", "[[want]] torch: version: '=2.11' is not a version specifier such as ==13.0.88"),
        ('"target"', '"targets"', "[[want]] torch: role: input should be 'host', 'target' or 'build'"),
        ("glibc", "glib", "unknown key 'glib', did you mean 'glibc'?"),
    ],
)
def test_wrong_wishes_are_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    (tmp_path / "w.in.toml").write_text(WANTS.replace(old, new))
    with pytest.raises(RecipeError, match=re.escape(told)):
        read_wants(tmp_path / "w.in.toml")
