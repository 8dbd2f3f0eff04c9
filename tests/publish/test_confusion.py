"""A stranger's higher version on a public index: the documented ways to install do not take it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from builder.publish import publish
from tests.publish.clients import PIP, UV, Client, installed_version, installer
from tests.publish.conftest import MakeWheel, Serve
from tests.publish.reader import listed
from tests.publish.wheels import X86_64

DOCUMENT = Path(__file__).parents[2] / "docs/index.md"


@pytest.fixture
def indexes(tmp_path: Path, make_wheel: MakeWheel, serve: Serve) -> tuple[str, str]:
    """Addresses of ours, with version 1.0, and of the public one, with 99.0 and a helper."""
    publish([make_wheel(version="1.0", tag=X86_64)], tmp_path / "ours")
    publish([make_wheel(version="99.0", tag=X86_64), make_wheel("helper", "2.0", "py3-none-any")], tmp_path / "public")
    return f"{serve(tmp_path / 'ours')[0]}/simple", f"{serve(tmp_path / 'public')[0]}/simple"


def test_the_danger_is_real(indexes: tuple[str, str], client: Client, environment: Path) -> None:
    ours, public = indexes
    options = ("--index-url", public, "--extra-index-url", ours)
    client(*PIP, "--python", environment, "install", *options, "spark-kernels")
    assert installed_version(client, environment) == "99.0"


@pytest.mark.slow
def test_pip_in_two_steps(indexes: tuple[str, str], client: Client, environment: Path, tmp_path: Path) -> None:
    (spark,) = listed(tmp_path / "ours").values()
    helper = next(digest for name, digest in listed(tmp_path / "public").items() if name.startswith("helper"))
    (tmp_path / "spark.txt").write_text(f"spark-kernels --hash=sha256:{spark}\n".replace(" --", "==1.0 --"))
    (tmp_path / "others.txt").write_text(f"helper==2.0 --hash=sha256:{helper}\n")
    pip = installer("pip", environment)
    client(*pip, "--index-url", indexes[0], "--no-deps", "--require-hashes", "-r", "spark.txt")
    client(*pip, "--index-url", indexes[1], "--require-hashes", "-r", "others.txt")
    assert installed_version(client, environment) == "1.0"


def test_uv_with_an_explicit_index(indexes: tuple[str, str], client: Client, tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    snippet = snippet.replace("http://HOST:8080/simple", indexes[0]).replace("vllm =", "spark-kernels =")
    snippet += f'\n[[tool.uv.index]]\nname = "public"\nurl = "{indexes[1]}"\ndefault = true\n'
    project = '[project]\nname = "app"\nversion = "0"\nrequires-python = ">=3.11"\n'
    project += 'dependencies = ["spark-kernels", "helper"]\n\n[tool.uv]\npackage = false\n\n'
    (tmp_path / "app").mkdir()
    (tmp_path / "app/pyproject.toml").write_text(project + snippet)
    client(*UV, "sync", "--project", "app", "--python", sys.executable)
    assert installed_version(client, tmp_path / "app/.venv/bin/python") == "1.0"
    assert client(tmp_path / "app/.venv/bin/python", "-c", "import helper; print(helper.__version__)").output == "2.0\n"
