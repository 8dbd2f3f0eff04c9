"""Tiny real wheels with a good verdict."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from builder.finding import Verdict
from builder.model import VerifiedWheel, Wheel

AARCH64 = "cp38-abi3-manylinux_2_34_aarch64"
X86_64 = "cp38-abi3-manylinux_2_17_x86_64"
LOCAL = "0.20.0+aeon7.1.p1a2b3c4d"


def verified(path: Path) -> VerifiedWheel:
    """As verify would give it; tests of the index have no device code to check."""
    data = path.read_bytes()
    name, version, tag = path.name.split("-")[0], str(parse_wheel_filename(path.name)[1]), path.stem.split("-", 2)[2]
    wheel = Wheel(path, hashlib.sha256(data).hexdigest(), len(data), name, version, tag)
    return VerifiedWheel(wheel, Verdict((), {}))


def build_wheel(
    folder: Path,
    name: str,
    version: str,
    tag: str,
    *,
    payload: bytes,
    requires_python: str,
    requires: Sequence[str] = (),
) -> Path:
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    members = {
        f"{module}/__init__.py": f"__version__ = {version!r}\n".encode(),
        f"{module}/payload.bin": payload,
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {requires_python}\n{needs}"
        ).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in members.items())
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
