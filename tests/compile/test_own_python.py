"""The toolchain's Python is of the builder's own version, also after that changed."""

import subprocess
import sys
from pathlib import Path

import pytest

from builder.compile.toolchain import _own_python

OURS = "{}.{}".format(*sys.version_info[:2])


def test_it_is_made_once(tmp_path: Path) -> None:
    _own_python(tmp_path / "python")
    said = subprocess.run([tmp_path / "python/bin/python3", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith(f"Python {OURS}.")
    (tmp_path / "python/mark").touch()
    _own_python(tmp_path / "python")
    assert (tmp_path / "python/mark").exists()


@pytest.mark.parametrize("other", ["version = 3.9.18", "version_info = 3.1.0", "home = /usr/bin", None])
def test_one_of_another_version_is_made_anew(tmp_path: Path, other: str | None) -> None:
    _own_python(tmp_path / "python")
    (tmp_path / "python/mark").touch()
    settings = tmp_path / "python/pyvenv.cfg"
    settings.unlink()
    if other is not None:
        settings.write_text(f"{other}\n")
    _own_python(tmp_path / "python")
    assert not (tmp_path / "python/mark").exists()
    assert f"version = {OURS}." in settings.read_text()


def test_one_whose_program_is_gone_is_made_anew(tmp_path: Path) -> None:
    _own_python(tmp_path / "python")
    (tmp_path / "python/bin/python3").unlink()
    (tmp_path / "python/bin/python3").symlink_to(tmp_path / "gone")
    _own_python(tmp_path / "python")
    assert (tmp_path / "python/bin/python3").exists()
