"""The script `dev` itself: what a machine lacks is said before anything is made."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_python_that_is_too_old_is_said_at_once(tmp_path: Path) -> None:
    """Else its package installer complains of locked files that it cannot use."""
    shutil.copy(ROOT / "dev", tmp_path)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12 && exit 0\nexit 1\n')
    python.chmod(0o755)
    words, env = ["/bin/sh", str(tmp_path / "dev"), "help"], {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 9
    assert done.stderr.startswith("error: Python 3.11 or newer is needed; python3 is Python 3.10.12\n  next: ")
    assert not (tmp_path / ".nox").exists()
