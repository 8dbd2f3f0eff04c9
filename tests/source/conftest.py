"""Small sdists in a find-links folder, under the name of a package that upstream.toml knows."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder.model import Package

COMMIT = "b9372aa23c5a01db36ea8b578521c9ce957d02ed"
HEADER = "#pragma once\n#define CUTLASS_MAJOR {}\n#define CUTLASS_MINOR {}\n#define CUTLASS_PATCH {}\n"

SOURCE = {
    "README.md": b"kernels\n",
    "csrc/a.cu": b"__global__ void a() {}\n",
    "setup.py": b"import setuptools\n",
    "3rdparty/cutlass/include/cutlass/version.h": HEADER.format(4, 4, 2).encode(),
}
GENERATED = {
    "PKG-INFO": b"Metadata-Version: 2.4\n",
    "setup.cfg": b"[egg_info]\n",
    "flashinfer_python.egg-info/SOURCES.txt": b"README.md\n",
    "flashinfer/_build_meta.py": f'__version__ = "0.6.8"\n__git_version__ = "{COMMIT}"\n'.encode(),
}


@dataclass(frozen=True)
class Shelf:
    """A find-links folder that takes sdists."""

    folder: Path

    def sdist(self, files: Mapping[str, bytes], *, top: str = "flashinfer_python-0.6.8/") -> Package:
        """Put an sdist there; the package that pins it, with no tree yet."""
        path = self.folder / "flashinfer_python-0.6.8.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(top + name)
                info.size, info.mode = len(data), 0o755 if name.endswith(".py") else 0o644
                tar.addfile(info, io.BytesIO(data))
        return self.package(hashlib.sha256(path.read_bytes()).hexdigest())

    def package(self, sha256: str) -> Package:
        """The package with that sdist."""
        return Package(
            name="flashinfer-python",
            version="0.6.8",
            commit=COMMIT,
            git="https://example.invalid/flashinfer.git",
            sdist="flashinfer_python-0.6.8.tar.gz",
            sha256=sha256,
            tree="0" * 40,
            result_tree="0" * 40,
            vendored=(("3rdparty/cutlass", "4.4.2"),),
        )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    folder = tmp_path / "shelf"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return Shelf(folder)


@pytest.fixture
def good() -> dict[str, bytes]:
    """The files of a good sdist."""
    return SOURCE | GENERATED


@pytest.fixture
def upstream() -> dict[str, bytes]:
    """The files of the repository that the sdist was made from."""
    return dict(SOURCE)


@pytest.fixture
def header() -> str:
    """cutlass/version.h with places for its three numbers."""
    return HEADER
