from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from builder.inspect import inspect_path, to_json, to_text


def test_the_document_is_the_contract(make_wheel: Callable[..., Path], samples: Path) -> None:
    path = make_wheel({"demo/_C.so": (samples / "launch_zstd.so").read_bytes()})
    document = to_json([inspect_path(path)])
    assert set(document) == {"version", "files"}
    assert document["version"] == 1
    (file,) = document["files"]
    assert set(file) == {"path", "sha256", "size", "wheel", "sizes", "objects"}
    assert file["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file["size"] == path.stat().st_size
    assert set(file["wheel"]) == {"name", "version", "tags", "dist_info", "glibc_tag"}
    (found,) = file["objects"]
    links = {"machine", "needed", "rpath", "glibc", "glibcxx", "cxxabi", "undefined"}
    assert set(found) == {"path", "size", "code", "devices"} | links
    assert file["sizes"]["demo"] == found["size"] == (samples / "launch_zstd.so").stat().st_size
    assert found["needed"] == ["libcudart.so.13", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6"]
    assert found["devices"] == {"12.1": {"native": 1, "jit": 0, "none": 0}}
    assert {tuple(sorted(code)) for code in found["code"]} == {
        ("arch", "compression", "empty", "images", "instructions", "kernels", "kind", "trap_only")
    }
    assert json.loads(json.dumps(document, sort_keys=True)) == document


def test_the_same_file_gives_the_same_document(samples: Path) -> None:
    first, second = (json.dumps(to_json([inspect_path(samples / "launch_zstd.so")])) for _ in range(2))
    assert first == second


def test_a_bare_binary_has_no_wheel(samples: Path) -> None:
    (file,) = to_json([inspect_path(samples / "mma_sm_120f.cubin")])["files"]
    assert file["wheel"] is None
    (code,) = file["objects"][0]["code"]
    assert (code["kind"], code["arch"], code["images"], code["kernels"]) == ("sass", "sm_120f", 1, 8)
    assert {k: v for k, v in code["instructions"].items() if k in ("OMMA", "QMMA", "HMMA", "F2FP.E2M1")} == {
        "OMMA": 1,
        "QMMA": 2,
        "HMMA": 2,
        "F2FP.E2M1": 2,
    }


def test_what_a_library_needs_is_told_without_details(samples: Path) -> None:
    (file,) = to_json([inspect_path(samples / "throws.so")])["files"]
    (found,) = file["objects"]
    assert found["rpath"] == ["$ORIGIN/../lib", "$ORIGIN/nvidia/cu13/lib"]
    assert (found["glibc"], found["glibcxx"], found["cxxabi"]) == ("", "3.4.21", "1.3")
    assert found["size"] == file["size"]
    assert file["sizes"] == {}


def test_headers_alone_say_null(samples: Path) -> None:
    (file,) = to_json([inspect_path(samples / "launch_zstd.so", level="arch")])["files"]
    code = file["objects"][0]["code"]
    assert [c["arch"] for c in code] == ["sm_121a", "sm_80", "sm_80"]
    assert {c["kernels"] for c in code} == {None}
    assert file["objects"][0]["devices"] == {}


def test_headers_alone_name_no_kernels(samples: Path) -> None:
    """That none was read is not that there is none."""
    files = [inspect_path(samples / name, level="arch") for name in ("guard_sm_121a.o", "nothing.so")]
    objects = [file["objects"][0] for file in to_json(files, details=True)["files"]]
    assert [(found["trap_only"], found["empty"]) for found in objects] == [(None, None), ([], [])]


def test_details_name_the_kernels(samples: Path) -> None:
    (file,) = to_json([inspect_path(samples / "guard_sm_121a.o")], details=True)["files"]
    (found,) = file["objects"]
    assert found["empty"] == ["sass sm_121a _Z13guarded_emptyPf"]
    assert "sass sm_121a _Z19guarded_printf_trapPf" in found["trap_only"]
    assert file["findings"] == []


def test_people_read_the_same(make_wheel: Callable[..., Path], samples: Path) -> None:
    path = make_wheel(
        {"demo/_C.so": (samples / "guard_sm_121a.o").read_bytes(), "demo/host.so": (samples / "glibc.so").read_bytes()},
        unlisted={"demo/more.py": b""},
    )
    text = to_text([inspect_path(path)])
    assert "sass sm_121a   none  1 image, 5 kernels, 3 trap-only, 1 empty, 5 BPT.TRAP" in text
    assert "on 12.1: 5 native, 0 compiled at load, 0 not at all" in text
    assert "demo/host.so  (x86_64, 14.2 kB, glibc 2.34)" in text
    assert "! record: demo/more.py: the file is not in RECORD" in text
