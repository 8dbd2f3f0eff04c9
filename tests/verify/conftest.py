"""Wheels made of real bytes, and the shortest way from one to a verdict."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from builder.context import Context
from builder.finding import Verdict
from builder.model import Arch, LockedFile, Package, Recipe, Target, ToolchainPin, Wheel
from builder.recipe import write_lock
from builder.store import sha256_of
from builder.verify import Expectations, examine

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ROOT / "tests" / "data" / "samples"
STUBS = Path(__file__).parent / "samples"
TAG = "cp312-cp312-manylinux_2_34_x86_64"
LAUNCH_ARCHS = ("sm_121a", "sm_80", "compute_80")
"""What the sample launch_zstd.so is compiled for."""

MakeWheel = Callable[..., Path]
Judge = Callable[[Path, Expectations], Verdict]


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def stub(name: str) -> bytes:
    return (STUBS / name).read_bytes()


def write_wheel(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    requires: str = "torch==2.11.0",
    tag: str = TAG,
    name: str = "demo",
    version: str = "1.0",
    more: str = "",
    form: str = "1.0",
) -> Path:
    """demo 1.0 with these files, right in everything else."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: {requires}\n{more}"
    own = f"{name}-{version}"
    contents = dict(files) | {
        f"{own}.dist-info/METADATA": metadata.encode(),
        f"{own}.dist-info/WHEEL": f"Wheel-Version: {form}\nTag: {tag}\n".encode(),
    }
    lines = "".join(_line(name, data) for name, data in contents.items())
    path = folder / f"{own}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, data in contents.items():
            archive.writestr(inside, data)
        archive.writestr(f"{own}.dist-info/RECORD", lines + f"{own}.dist-info/RECORD,,\n")
    return path


def _line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    def make(files: Mapping[str, bytes] | None = None, **changes: str) -> Path:
        return write_wheel(tmp_path, {"demo/_C.so": sample("launch_zstd.so")} if files is None else files, **changes)

    return make


@pytest.fixture
def judge_file(context: Context) -> Judge:
    return lambda path, wanted: examine(path, wanted, context)[0]


@pytest.fixture
def wanted() -> Expectations:
    """What the good demo wheel fulfils."""
    return Expectations(
        "12.1",
        machine="x86_64",
        python="3.12",
        archs=LAUNCH_ARCHS,
        strict=True,
        name="demo",
        version="1.0",
        torch="2.11.0",
        cuda_major="13",
        objects=(("_C", ("*/_C.so",)),),
    )


def rules(verdict: Verdict) -> list[str]:
    return [finding.rule for finding in verdict.findings]


def only(verdict: Verdict, rule: str) -> str:
    """The message of the one finding, which is of that rule."""
    assert rules(verdict) == [rule], verdict.findings
    return verdict.findings[0].message


def keep_wheel(context: Context, folder: Path, project: str, version: str, files: Mapping[str, bytes]) -> LockedFile:
    """A wheel of the lock, put into the store; its role is target-x86_64."""
    path = folder / f"{project.replace('-', '_')}-{version}-py3-none-manylinux_2_17_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    digest = context.store.put_file(path).name
    return LockedFile(project, version, path.name, digest, path.stat().st_size, ("target-x86_64",))


@pytest.fixture
def pins(context: Context, tmp_path: Path) -> tuple[LockedFile, ...]:
    """torch without libraries, and a CUDA runtime."""
    folder = tmp_path / "pins"
    folder.mkdir()
    runtime = {"nvidia/cu13/lib/libcudart.so.13": stub("libcudart.so.13")}
    return (
        keep_wheel(context, folder, "torch", "2.11.0", {"torch/__init__.py": b""}),
        keep_wheel(context, folder, "nvidia-cuda-runtime", "13.0.96", runtime),
    )


@pytest.fixture
def recipe(tmp_path: Path, pins: tuple[LockedFile, ...]) -> Recipe:
    """The recipe of the demo wheel, its lock beside it."""
    (tmp_path / "recipes" / "locks").mkdir(parents=True)
    nvcc = "nvidia_cuda_nvcc-13.0.88-py3-none-manylinux_2_17_x86_64.whl"
    compiler = LockedFile("nvidia-cuda-nvcc", "13.0.88", nvcc, "0" * 64, 1, ("host-x86_64",))
    write_lock(tmp_path / "recipes" / "locks" / "demo.toml", [*pins, compiler])
    zero = "0" * 40
    return Recipe(
        name="demo",
        path=tmp_path / "recipes" / "demo.toml",
        revision=1,
        target=Target("linux-x86_64", (Arch(12, 1, "a"), Arch(8, 0, "", ptx=True)), "3.12"),
        toolchain=ToolchainPin("13.0.2", "2.11.0", "locks/demo.toml"),
        packages=(Package("demo", "1.0", zero, "", "", "", zero, zero, components=("_C",)),),
    )


@pytest.fixture
def wheel(make_wheel: MakeWheel) -> Wheel:
    return as_wheel(make_wheel())


def as_wheel(path: Path) -> Wheel:
    return Wheel(path, sha256_of(path), path.stat().st_size, "demo", "1.0", TAG)
