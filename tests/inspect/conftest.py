from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parent.parent / "data" / "samples"


@pytest.fixture(scope="session")
def samples() -> Path:
    return SAMPLES


def record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


MakeWheel = Callable[..., Path]


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Write a wheel that is right in everything but what the caller changes."""

    def make(
        files: Mapping[str, bytes],
        *,
        filename: str = "demo-1.0-cp38-abi3-manylinux_2_34_x86_64.whl",
        metadata: str = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        wheel: str = "Wheel-Version: 1.0\nTag: cp38-abi3-manylinux_2_34_x86_64\n",
        record: str | None = None,
        unlisted: Mapping[str, bytes] | None = None,
    ) -> Path:
        contents = dict(files) | {"demo-1.0.dist-info/METADATA": metadata.encode()}
        contents["demo-1.0.dist-info/WHEEL"] = wheel.encode()
        lines = "".join(record_line(name, data) for name, data in contents.items())
        contents["demo-1.0.dist-info/RECORD"] = (
            record if record is not None else lines + "demo-1.0.dist-info/RECORD,,\n"
        ).encode()
        path = tmp_path / filename
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in (contents | dict(unlisted or {})).items():
                archive.writestr(name, data)
        return path

    return make
