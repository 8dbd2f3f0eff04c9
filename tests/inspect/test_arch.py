"""CASES 1 and 4: exact architectures, and what there is to run at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.inspect import DeviceFacts, inspect_path
from builder.inspect.facts import CodeFacts


def code_of(path: Path, level: str = "sass") -> list[CodeFacts]:
    facts = inspect_path(path, level="arch" if level == "arch" else "sass")
    return [code for found in facts.objects for code in found.code]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("scale_sm_120.o", "sm_120"),
        ("scale_sm_120f.o", "sm_120f"),
        ("scale_sm_120.cubin", "sm_120"),
        ("scale_sm_120f.cubin", "sm_120f"),
        ("scale_sm_120a.cubin", "sm_120a"),
        ("mma_sm_90a.cubin", "sm_90a"),
        ("mma_sm_75.cubin", "sm_75"),
    ],
)
@pytest.mark.parametrize("level", ["arch", "sass"])
def test_the_suffix_is_seen(samples: Path, name: str, arch: str, level: str) -> None:
    assert [code.arch for code in code_of(samples / name, level)] == [arch]


def test_the_pair_differs_in_nothing_but_the_suffix(samples: Path) -> None:
    plain, family = ((samples / f"scale_sm_{arch}.o").read_bytes() for arch in ("120", "120f"))
    assert len(plain) == len(family)
    assert plain != family


@pytest.mark.parametrize(
    ("name", "compression"), [("launch_zstd.so", "zstd"), ("launch_lz4.so", "lz4"), ("launch_plain.so", "none")]
)
def test_every_compression_gives_the_same_kernels(samples: Path, name: str, compression: str) -> None:
    ptx = next(code for code in code_of(samples / name) if code.kind == "ptx")
    assert (ptx.arch, ptx.compression, ptx.kernels) == ("sm_80", compression, 1)
    found = inspect_path(samples / name).objects[0]
    assert {(k.kind, k.arch, k.name) for k in found.kernels} == {
        ("sass", "sm_80", "_Z5scalePf"),
        ("sass", "sm_121a", "_Z5scalePf"),
        ("ptx", "sm_80", "_Z5scalePf"),
    }


@pytest.mark.parametrize(
    ("name", "native", "jit", "none"),
    [
        ("launch_zstd.so", 1, 0, 0),
        ("launch_ptx.so", 0, 1, 0),
        ("launch_sm_75.so", 0, 0, 1),
        ("nothing.so", 0, 0, 0),
        ("scale_sm_120a.cubin", 0, 0, 1),
        ("scale_sm_120f.cubin", 1, 0, 0),
        ("guard_ptx_121a.o", 0, 5, 0),
    ],
)
def test_kernels_on_a_spark(samples: Path, name: str, native: int, jit: int, none: int) -> None:
    assert inspect_path(samples / name).objects[0].devices == {"12.1": DeviceFacts(native, jit, none)}


def test_several_devices_at_once(samples: Path) -> None:
    found = inspect_path(samples / "scale.fatbin", devices=("9.0", "10.0", "12.0", "12.1")).objects[0]
    assert {device: (f.native, f.jit, f.none) for device, f in found.devices.items()} == {
        "9.0": (1, 0, 0),
        "10.0": (0, 0, 1),
        "12.0": (1, 0, 0),
        "12.1": (1, 0, 0),
    }


def test_a_raw_fatbin_holds_two_cubins_and_ptx(samples: Path) -> None:
    assert [(c.kind, c.arch) for c in code_of(samples / "scale.fatbin")] == [
        ("ptx", "sm_120a"),
        ("sass", "sm_120f"),
        ("sass", "sm_90"),
    ]


def test_headers_alone_leave_what_they_do_not_say_unknown(samples: Path) -> None:
    found = inspect_path(samples / "launch_zstd.so", level="arch").objects[0]
    assert all(code.kernels is None and code.instructions is None and code.images for code in found.code)
    assert found.devices == {}
