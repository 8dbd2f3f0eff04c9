"""The whole line on real upstream source: what the first command of the README promises.

Run by `nox -s smoke`. It uses the caller's own store, so a machine that built the recipe before
only proves it again.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from builder.inspect import ObjectFacts, inspect_path

ROOT = Path(__file__).parents[2]
FACADE = ROOT / "builder/compile/facade"
CLIENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PIP_CONFIG_FILE": os.devnull}

pytestmark = [pytest.mark.compile, pytest.mark.network, pytest.mark.slow]


def run(*argv: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in argv], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def built(out: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        run(sys.executable, "-m", "builder", "build", "recipe=smoke", f"out={out}", "--json")
    )
    return document


@pytest.fixture(scope="module")
def wheels(built: dict[str, Any]) -> dict[str, Path]:
    return {wheel["name"]: Path(built["folder"]) / wheel["file"] for wheel in built["wheels"]}


@pytest.fixture(scope="module")
def index(built: dict[str, Any]) -> Iterator[str]:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=built["index"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple/"
    server.shutdown()
    server.server_close()


def archs(found: ObjectFacts) -> set[str]:
    return {image.arch for image in found.images}


def test_every_object_is_aarch64_and_code_for_the_device_is_sm_121a(wheels: dict[str, Path]) -> None:
    cache = inspect_path(wheels["flashinfer-jit-cache"], level="arch")
    assert len(cache.objects) == 2
    assert all(item.elf.machine == "aarch64" and archs(item) == {"sm_121a"} for item in cache.objects)
    vllm = {item.path: item for item in inspect_path(wheels["vllm"], level="arch").objects}
    assert {item.elf.machine for item in vllm.values()} == {"aarch64"}
    assert archs(vllm["vllm/cumem_allocator.abi3.so"]) == set()
    assert archs(vllm["vllm/_C_stable_libtorch.abi3.so"]) == {"sm_121a"}


def test_the_gemm_kernels_hold_the_fp4_and_fp8_instructions_of_upstreams_own_12_0_build(
    wheels: dict[str, Path],
) -> None:
    objects = {item.path: item for item in inspect_path(wheels["vllm"]).objects}
    item = objects["vllm/_C_stable_libtorch.abi3.so"]
    (code,) = item.code
    assert code.instructions is not None
    assert {name: code.instructions[name] for name in ("OMMA", "QMMA", "F2FP.E2M1")} == {
        "OMMA": 448,
        "QMMA": 1600,
        "F2FP.E2M1": 88,
    }
    assert (code.trap_only, code.empty, item.devices["12.1"].native) == (0, 0, code.kernels)


def test_platform_tags_come_from_the_symbols(wheels: dict[str, Path]) -> None:
    assert wheels["flashinfer-python"].name.endswith("py3-none-any.whl")
    assert "-manylinux_2_" in wheels["vllm"].name
    assert wheels["vllm"].name.endswith("_aarch64.whl")


def test_metadata_pins_torch_and_siblings_and_holds_the_build_record(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["vllm"]) as archive:
        info = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        requires = message_from_bytes(archive.read(info)).get_all("Requires-Dist") or []
        record = json.loads(archive.read(info.replace("METADATA", "spark-wheels.json")))
    version = wheels["flashinfer-python"].name.split("-")[1]
    assert "torch==2.11.0" in requires
    assert f"flashinfer-python=={version}" in requires
    assert record["package"]["upstream_commit"] == "b8160878f07fe6aff02deb12bc842df3fa4a9237"
    assert [patch["state"] for patch in record["patches"]] == ["clean"] * len(record["patches"])


def test_the_papers_of_each_wheel_agree_with_the_recipe(wheels: dict[str, Path], built: dict[str, Any]) -> None:
    asked = [f"provenance={built['folder']}", "recipe=smoke", "--json"]
    said = json.loads(run(sys.executable, "-m", "builder", "verify", *asked))
    assert {Path(file["path"]) for file in said["files"]} == set(wheels.values())
    for path in wheels.values():
        with zipfile.ZipFile(path) as archive:
            (bill,) = [name for name in archive.namelist() if name.endswith(".dist-info/sboms/spark-wheels.cdx.json")]
            told = archive.read(bill)
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(told.decode()) is None


def test_a_second_build_does_nothing_and_says_so_within_two_seconds(built: dict[str, Any], out: Path) -> None:
    started = time.monotonic()
    again = json.loads(run(sys.executable, "-m", "builder", "build", "recipe=smoke", f"out={out}", "--json"))
    assert again["nothing_to_do"] is True
    assert again["wheels"] == built["wheels"]
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("name", ["flashinfer-python", "flashinfer-jit-cache", "vllm"])
def test_pip_downloads_each_wheel(name: str, wheels: dict[str, Path], index: str, tmp_path: Path) -> None:
    tag = wheels[name].name.removesuffix(".whl").rsplit("-", 1)[1]
    platform = ["--platform", tag] if tag != "any" else []
    argv = ["pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", *platform, "--index-url", index]
    run(sys.executable, "-m", *argv, "-d", tmp_path, name, env=CLIENT)
    assert [path.name for path in tmp_path.iterdir()] == [wheels[name].name]


def test_flashinfer_finds_every_module_ahead_of_time_and_builds_nothing(
    wheels: dict[str, Path], index: str, tmp_path: Path
) -> None:
    """FlashInfer's own lookup, from both wheels as pip installs them, with torch's stand-in for its dtypes."""
    both = [f"{name}=={wheels[name].name.split('-')[1]}" for name in ("flashinfer-python", "flashinfer-jit-cache")]
    tag = wheels["flashinfer-jit-cache"].name.removesuffix(".whl").rsplit("-", 1)[1]
    argv = [
        "pip",
        "install",
        "--no-deps",
        "--no-cache-dir",
        "--only-binary=:all:",
        "--platform",
        tag,
        "--platform",
        "any",
    ]
    run(sys.executable, "-m", *argv, "--target", tmp_path / "site", "--index-url", index, *both, env=CLIENT)
    torch = tmp_path / "torch"
    (torch / "share/cmake/Torch").mkdir(parents=True)
    (torch / "utils").mkdir()
    (torch / "version.py").write_text("__version__ = '2.11.0'\ncuda = '13.0'\nhip = None\nxpu = None\n")
    (torch / "utils/cpp_extension.py").write_text("COMMON_NVCC_FLAGS = []\n")
    (torch / "share/cmake/Torch/TorchConfig.cmake").write_text("_GLIBCXX_USE_CXX11_ABI=1")
    env = CLIENT | {
        "PYTHONPATH": f"{FACADE}:{tmp_path / 'site'}",
        "SPARK_TORCH_DIR": str(torch),
        "FLASHINFER_CUDA_ARCH_LIST": "12.1a",
        "FLASHINFER_WORKSPACE_BASE": str(tmp_path / "work"),
        "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1",
    }
    said = json.loads(run(sys.executable, Path(__file__).with_name("lookup.py"), tmp_path / "site", env=env))
    assert said == {"fp4_quantization_121": True, "xqa": True, "xqa_other_page_size": False}
    assert not list((tmp_path / "work").rglob("*.so"))


def test_pip_installs_flashinfer_and_python_imports_its_version(
    wheels: dict[str, Path], index: str, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    pip = ["pip", "install", "--no-deps", "--no-cache-dir", "--index-url", index, "flashinfer-python"]
    run(python, "-m", *pip, env=CLIENT)
    said = run(
        python, "-c", "from flashinfer_version import v; print(v)", env=CLIENT | {"PYTHONPATH": str(_probe(tmp_path))}
    )
    assert said.strip() == wheels["flashinfer-python"].name.split("-")[1]


def _probe(folder: Path) -> Path:
    """Reads the version as FlashInfer's own package does, without torch, which that package imports first."""
    code = "import runpy, importlib.util as u\nroot = u.find_spec('flashinfer').submodule_search_locations[0]\n"
    (folder / "probe").mkdir()
    (folder / "probe/flashinfer_version.py").write_text(
        f"{code}v = runpy.run_path(f'{{root}}/_build_meta.py')['__version__']\n"
    )
    return folder / "probe"
