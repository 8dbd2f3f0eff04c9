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


OURS = ("vllm", "flashinfer-python", "flashinfer-jit-cache")


@pytest.fixture
def stacks(tmp_path: Path, make_wheel: MakeWheel, serve: Serve) -> tuple[str, str]:
    """Ours, where vllm 1.0 asks for the other two, and of the public one, with 99.0 of all, and a helper."""
    siblings = OURS[1:]
    publish([make_wheel("vllm", "1.0", requires=[*siblings, "helper"])], tmp_path / "stack")
    publish([make_wheel("vllm", "1.0", "py3-none-any", requires=[*siblings, "helper"])], tmp_path / "stack")
    publish([make_wheel(name, "1.0", "py3-none-any") for name in siblings], tmp_path / "stack")
    strangers = [make_wheel(name, "99.0", "py3-none-any") for name in OURS]
    publish([*strangers, make_wheel("helper", "2.0", "py3-none-any")], tmp_path / "strangers")
    return f"{serve(tmp_path / 'stack')[0]}/simple", f"{serve(tmp_path / 'strangers')[0]}/simple"


def synced(client: Client, tmp_path: Path, stacks: tuple[str, str], project: str) -> list[str]:
    """Versions of our three and the helper, as uv installs them by a pyproject.toml."""
    (tmp_path / "app").mkdir()
    public = f'\n[[tool.uv.index]]\nname = "public"\nurl = "{stacks[1]}"\ndefault = true\n'
    text = project.replace("http://HOST:8080/simple", stacks[0]).replace(">=3.12", ">=3.11")
    (tmp_path / "app/pyproject.toml").write_text(f"{text}{public}\n[tool.uv]\npackage = false\n")
    client(*UV, "sync", "--project", "app", "--python", sys.executable)
    code = f"from importlib.metadata import version\nprint(*map(version, {[*OURS, 'helper']}))"
    return client(tmp_path / "app/.venv/bin/python", "-c", code).output.split()


def documented() -> str:
    blocks: list[str] = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (block,) = [block for block in blocks if "tool.uv.sources" in block]
    return block


def test_uv_takes_none_of_a_strangers_as_documented(stacks: tuple[str, str], client: Client, tmp_path: Path) -> None:
    assert synced(client, tmp_path, stacks, documented()) == ["1.0", "1.0", "1.0", "2.0"]


def test_what_uv_does_with_names_that_are_bound_and_not_declared(
    stacks: tuple[str, str], client: Client, tmp_path: Path
) -> None:
    """Why the document declares all three."""
    alone = re.sub(r"dependencies = .*", 'dependencies = ["vllm"]', documented())
    assert synced(client, tmp_path, stacks, alone) == ["1.0", "99.0", "99.0", "2.0"]
