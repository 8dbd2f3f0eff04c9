"""The script `dev` itself: what a machine lacks is said before anything is made."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

from builder.__main__ import VERBS

ROOT = Path(__file__).parents[2]
LOCK = "locks/runtime.txt"


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


def test_it_knows_every_verb_and_every_session() -> None:
    text = (ROOT / "dev").read_text(encoding="utf-8")
    verbs, sessions = re.findall(r"(?m)^    (\w+(?: \| \w+){3,})\)", text)
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    assert set(verbs.split(" | ")) == set(VERBS)
    assert set(sessions.split(" | ")) == defined - set(VERBS)


def _checkout(folder: Path) -> Path:
    """The script with an environment that stands already, whose Python says how it was called."""
    place = folder / ".nox" / "plan"
    for program in (folder / ".nox" / "tools" / "bin" / "nox", place / "bin" / "python"):
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "$0" "$@" as "$SPARK_WHEELS_CALLED"\nexit 12\n')
        program.chmod(0o755)
    shutil.copy(ROOT / "dev", folder)
    for lock in (folder / LOCK, place / "runtime.txt"):
        lock.parent.mkdir(exist_ok=True)
        lock.write_text("filelock==1\n")
    return folder


def _call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(folder / "dev"), *words], capture_output=True, text=True, check=False)


def test_exit_code_and_output_are_the_builders_own(tmp_path: Path) -> None:
    done = _call(_checkout(tmp_path), "plan", "recipe=a b", "--json")
    assert (done.returncode, done.stderr) == (12, "")
    assert done.stdout == ".nox/plan/bin/python -m builder plan recipe=a b --json as ./dev\n"


def test_an_environment_of_another_lock_is_made_anew(tmp_path: Path) -> None:
    folder = _checkout(tmp_path)
    (folder / LOCK).write_text("filelock==2\n")
    done = _call(folder, "plan", "recipe=smoke")
    assert done.returncode == 9
    assert "nox --envdir .nox --install-only -s plan -- plan recipe=smoke" in done.stderr


def test_who_asks_for_an_identity_gets_what_checks_it(tmp_path: Path) -> None:
    done = _call(_checkout(tmp_path), "plan", "identity=me")
    assert "--install-only" in done.stderr
