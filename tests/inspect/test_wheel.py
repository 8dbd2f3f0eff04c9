"""CASE 8 and the rest of what a wheel says of itself; CASES 6, 7 and 9 as facts of its binaries."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.errors import InspectError
from builder.inspect import inspect_path
from builder.inspect.wheel import glibc_tag

MakeWheel = Callable[..., Path]


def rules(path: Path) -> list[tuple[str, str]]:
    return [(finding.rule, finding.where) for finding in inspect_path(path).findings]


def test_a_right_wheel_has_no_findings(make_wheel: MakeWheel, samples: Path) -> None:
    path = make_wheel({"demo/_C.so": (samples / "launch_zstd.so").read_bytes(), "demo/__init__.py": b""})
    facts = inspect_path(path)
    assert facts.findings == ()
    assert facts.wheel is not None
    assert (facts.wheel.name, facts.wheel.version, facts.wheel.dist_info) == ("demo", "1.0", "demo-1.0.dist-info")
    assert (facts.wheel.tags, facts.wheel.glibc_tag) == (("cp38-abi3-manylinux_2_34_x86_64",), "2.34")
    assert [(o.path, {image.arch for image in o.images}) for o in facts.objects] == [
        ("demo/_C.so", {"sm_121a", "sm_80"})
    ]
    assert facts.wheel.sizes["demo"] == (samples / "launch_zstd.so").stat().st_size


def test_the_whole_of_a_wheel_equals_its_binary_alone(make_wheel: MakeWheel, samples: Path) -> None:
    path = make_wheel({"mma_sm_121a.cubin": (samples / "mma_sm_121a.cubin").read_bytes()})
    assert inspect_path(path).objects == inspect_path(samples / "mma_sm_121a.cubin").objects


def test_renamed_to_another_version(make_wheel: MakeWheel) -> None:
    path = make_wheel({}, filename="demo-1.0+cu130-cp38-abi3-manylinux_2_34_x86_64.whl")
    found = inspect_path(path).findings
    assert [finding.rule for finding in found] == ["wheel-version"]
    assert "the file name says 1.0+cu130" in found[0].message
    assert "METADATA says 1.0" in found[0].message


def test_renamed_to_another_project(make_wheel: MakeWheel) -> None:
    path = make_wheel({}, filename="other-1.0-cp38-abi3-manylinux_2_34_x86_64.whl")
    assert [rule for rule, _ in rules(path)] == ["wheel-name"]


def test_retagged_in_the_name_alone(make_wheel: MakeWheel) -> None:
    path = make_wheel({}, filename="demo-1.0-cp38-abi3-manylinux_2_17_x86_64.whl")
    assert [rule for rule, _ in rules(path)] == ["wheel-tags"]
    assert inspect_path(path).wheel.glibc_tag == "2.17"  # type: ignore[union-attr]


def test_a_name_that_is_none(make_wheel: MakeWheel) -> None:
    path = make_wheel({}, filename="demo.whl")
    assert rules(path)[0][0] == "wheel-name"
    assert inspect_path(path).wheel.version == "1.0"  # type: ignore[union-attr]


def test_two_dist_info_folders(make_wheel: MakeWheel) -> None:
    path = make_wheel({"demo-0.9.dist-info/METADATA": b"Name: demo\nVersion: 0.9\n"})
    assert ("dist-info", str(path)) in rules(path)


def test_a_zip_that_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    assert {rule for rule, _ in rules(path)} >= {"dist-info", "record"}


def test_record_with_another_digest(make_wheel: MakeWheel) -> None:
    record = "demo/a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,1\n"
    path = make_wheel({"demo/a.py": b"1"}, record=record)
    found = rules(path)
    assert ("record", "demo/a.py") in found
    assert ("record", "demo-1.0.dist-info/METADATA") in found  # not listed at all


def test_a_file_added_after_packing(make_wheel: MakeWheel) -> None:
    path = make_wheel({}, unlisted={"demo/extra.py": b"print()"})
    assert rules(path) == [("record", "demo/extra.py")]


def test_a_file_that_record_lists_and_nobody_packed(make_wheel: MakeWheel) -> None:
    path = make_wheel({"demo/a.py": b"1"})
    with zipfile.ZipFile(path) as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if name != "demo/a.py"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)
    assert rules(path) == [("record", "demo/a.py")]


def test_two_members_of_one_name(make_wheel: MakeWheel) -> None:
    path = make_wheel({"demo/a.py": b"1"})
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("demo/a.py", b"1")
    assert ("record", "demo/a.py") in rules(path)


@pytest.mark.parametrize(
    "name", ["demo/__pycache__/a.pyc", "demo/a.py.orig", "demo/.gitignore", "demo/kernel.cu.o", "../evil.py"]
)
def test_stray_files(make_wheel: MakeWheel, name: str) -> None:
    assert ("stray", name) in rules(make_wheel({name: b"x"}))


def test_a_text_that_is_named_like_a_library(make_wheel: MakeWheel) -> None:
    assert rules(make_wheel({"demo/_C.so": b"INPUT(libreal.so)"})) == [("binary", "demo/_C.so")]
    assert rules(make_wheel({"demo/_C.so": b""})) == [("binary", "demo/_C.so")]


@pytest.mark.parametrize(
    ("tags", "glibc"),
    [
        (["cp38-abi3-manylinux_2_35_aarch64"], "2.35"),
        (["cp39-cp39-manylinux_2_17_x86_64", "cp39-cp39-manylinux2014_x86_64"], "2.17"),
        (["py3-none-manylinux2014_aarch64"], "2.17"),
        (["cp311-cp311-linux_aarch64"], ""),
        (["py3-none-any"], ""),
        ([f"py3-none-manylinux_2_{'9' * 5000}_aarch64"], ""),
    ],
)
def test_the_glibc_that_the_tags_promise(tags: list[str], glibc: str) -> None:
    assert glibc_tag(tags) == glibc


def test_link_facts(samples: Path) -> None:
    undefined, cudart, glibc = (
        inspect_path(samples / f"{name}.so").objects[0].elf for name in ("undefined", "cudart12", "glibc")
    )
    assert undefined.machine == "x86_64"
    assert "_ZN4vllm23cutlass_scaled_mm_sm120EiPKf" in undefined.undefined
    assert undefined.exported == ("run",)
    assert cudart.needed == ("libcudart.so.12",)
    assert glibc.glibc == "2.34"
    assert ("pthread_create", "GLIBC_2.34", "libc.so.6") in glibc.versions


def test_a_folder_is_its_binaries(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "_C.so").write_bytes((samples / "launch_ptx.so").read_bytes())
    (tmp_path / "readme").write_text("no binary")
    (tmp_path / "empty").touch()
    facts = inspect_path(tmp_path)
    assert [o.path for o in facts.objects] == ["lib/_C.so"]
    assert facts.wheel is None


def test_what_is_not_read_in_a_folder_is_told(samples: Path, tmp_path: Path) -> None:
    (tmp_path / "good.so").write_bytes((samples / "launch_ptx.so").read_bytes())
    (tmp_path / "broken.so").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "cut.cubin").touch()
    (tmp_path / "other.whl").touch()
    found = inspect_path(tmp_path).findings
    assert [(f.rule, f.where) for f in found] == [("binary", n) for n in ("broken.so", "cut.cubin", "other.whl")]


def test_a_file_that_record_names_twice(make_wheel: MakeWheel) -> None:
    lines = "demo/a.py,sha256=AAAA,1\ndemo/a.py,,\ndemo-1.0.dist-info/RECORD,,\n"
    with pytest.raises(InspectError, match=r"demo/a\.py is there twice"):
        inspect_path(make_wheel({"demo/a.py": b"a"}, record=lines))


def test_a_static_archive_with_names_as_bsd_writes_them(samples: Path, tmp_path: Path) -> None:
    body = b"scale.o".ljust(12, b"\0") + (samples / "scale_sm_120f.o").read_bytes()
    header = f"{'#1/12':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n"
    path = tmp_path / "libdemo.a"
    path.write_bytes(b"!<arch>\n" + header.encode() + body)
    (found,) = inspect_path(path).objects
    assert found.path == "libdemo.a(scale.o)"
    assert found.kernels


def test_a_static_archive_is_its_members(samples: Path, tmp_path: Path) -> None:
    def member(name: str, data: bytes) -> bytes:
        header = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
        return header.encode() + data + b"\n" * (len(data) % 2)

    path = tmp_path / "libdemo.a"
    path.write_bytes(
        b"!<arch>\n" + member("notes.txt", b"odd") + member("scale.o", (samples / "scale_sm_120f.o").read_bytes())
    )
    (found,) = inspect_path(path).objects
    assert (found.path, [image.arch for image in found.images]) == ("libdemo.a(scale.o)", ["sm_120f"])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InspectError, match="cut short"):
        inspect_path(path)
