"""A raw wheel of upstream's becomes one with record and bill of materials, the same bytes each time."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from builder.compile.assemble import Plan, assemble
from builder.compile.host import Compilers
from builder.context import Context
from builder.errors import WheelError
from builder.inspect import inspect_path
from builder.model import Prebuilt, Wheel
from builder.store import sha256_of
from builder.supply import RECORD_NAME, SBOM_NAME
from builder.verify.check import contents_of
from builder.verify.sbom import paper_faults
from tests.supply.records import package, record

VERSION = record()["package"]["version"]
INFO = f"vllm-{VERSION}.dist-info"
NO_COMPILER = Compilers(Path("cc"), Path("c++"), Path("strip"), "0", cross=True)
OFFICIAL = {"vllm/third_party/triton_kernels/a.py": b"a = 1\n", "vllm/vllm_flash_attn/cute/b.py": b"b = 1\n"}


def packed(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def raw(folder: Path) -> Path:
    members = {
        "vllm/__init__.py": b"built = 1\n",
        "vllm-0.20.0.dist-info/METADATA": b"Metadata-Version: 2.4\nName: vllm\nVersion: 0.20.0\n",
        "vllm-0.20.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        f"vllm-0.20.0.dist-info/{SBOM_NAME}": b"somebody else's",
        "vllm-0.20.0.dist-info/sboms/upstream.cdx.json": b"{}",
    }
    return packed(folder / "vllm-0.20.0-py3-none-any.whl", members)


def made(folder: Path, context: Context, files: tuple[str, ...] = ("vllm/third_party/*", "vllm/*/cute/*.py")) -> Wheel:
    wanted = package().prebuilt
    assert wanted is not None
    official = packed(folder / wanted.wheel, OFFICIAL | {"vllm/__init__.py": b"theirs = 1\n"})
    prebuilt: Prebuilt = replace(wanted, files=files)
    value = record()
    value["prebuilt"] |= {"taken": {}}
    plan = Plan(VERSION, "aarch64", {}, (), value, prebuilt, official)
    return assemble(raw(folder), folder / "out", plan, NO_COMPILER, context)


def test_papers_are_in_and_agree(tmp_path: Path, context: Context) -> None:
    wheel = made(tmp_path, context)
    with zipfile.ZipFile(wheel.path) as archive:
        said = json.loads(archive.read(f"{INFO}/{RECORD_NAME}"))
        bill = archive.read(f"{INFO}/{SBOM_NAME}")
        assert archive.read(f"{INFO}/sboms/upstream.cdx.json") == b"{}"
    assert said["prebuilt"]["taken"] == {n: hashlib.sha256(data).hexdigest() for n, data in OFFICIAL.items()}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill.decode()) is None
    file = inspect_path(wheel.path)
    assert file.findings == ()
    with contents_of(wheel.path, file) as contents:
        assert list(paper_faults(file, contents)) == []


def test_the_same_again_has_the_same_bytes(tmp_path: Path, context: Context) -> None:
    first, second = (made(tmp_path / name, context) for name in ("one", "two"))
    assert first.sha256 == second.sha256 == sha256_of(second.path)


def test_what_was_built_is_not_said_to_be_taken(tmp_path: Path, context: Context) -> None:
    wheel = made(tmp_path, context, ("vllm/*.py",))
    with zipfile.ZipFile(wheel.path) as archive:
        said = json.loads(archive.read(f"{INFO}/{RECORD_NAME}"))
        assert archive.read("vllm/__init__.py") == b"built = 1\n"
    assert set(said["prebuilt"]["taken"]) == set(OFFICIAL)


def test_a_pattern_without_a_file_is_said(tmp_path: Path, context: Context) -> None:
    with pytest.raises(WheelError, match="no file matches vllm/none"):
        made(tmp_path, context, ("vllm/none/*",))
