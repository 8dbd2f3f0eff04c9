"""Real pip and uv, with hashes required, against a plain static server."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.publish import publish
from tests.publish.clients import PIP, Client, installed_version, installer
from tests.publish.conftest import MakeWheel, Serve
from tests.publish.wheels import AARCH64, LOCAL, X86_64


@pytest.mark.parametrize("version", ["0.20.0", LOCAL])
def test_pip_downloads_for_the_target_platform(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, version: str
) -> None:
    wheel = make_wheel()
    publish([wheel, make_wheel(tag=X86_64)], tmp_path / "index")
    url, requests = serve(tmp_path / "index")
    platform = ("--platform", "manylinux_2_34_aarch64", "--only-binary=:all:")
    client(
        *PIP,
        "download",
        "--no-deps",
        *platform,
        "--index-url",
        f"{url}/simple",
        "-d",
        "got",
        f"spark-kernels=={version}",
    )
    assert (tmp_path / "got" / wheel.wheel.path.name).read_bytes() == wheel.wheel.path.read_bytes()
    assert any(".whl.metadata" in line for line in requests)


# uv looks a hash up by the exact version, so with it a lock must name the local label (docs/index.md says so)
@pytest.mark.parametrize(("tool", "version"), [("pip", "0.20.0"), ("pip", LOCAL), ("uv", LOCAL)])
def test_clients_install_with_required_hashes(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, environment: Path, tool: str, version: str
) -> None:
    wheel = make_wheel(tag=X86_64)
    publish([wheel, make_wheel(tag=AARCH64)], tmp_path / "index")
    url, _ = serve(tmp_path / "index")
    (tmp_path / "lock.txt").write_text(f"spark-kernels=={version} --hash=sha256:{wheel.wheel.sha256}\n")
    options = ("--index-url", f"{url}/simple", "--require-hashes", "-r", "lock.txt")
    client(*installer(tool, environment), *options)
    assert installed_version(client, environment) == LOCAL


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_the_public_version_finds_the_patched_one(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, environment: Path, tool: str
) -> None:
    publish([make_wheel(tag=X86_64)], tmp_path / "index")
    url, _ = serve(tmp_path / "index")
    client(*installer(tool, environment), "--index-url", f"{url}/simple", "spark-kernels==0.20.0")
    assert installed_version(client, environment) == LOCAL


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_clients_refuse_another_hash(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, environment: Path, tool: str
) -> None:
    publish([make_wheel(tag=X86_64)], tmp_path / "index")
    url, _ = serve(tmp_path / "index")
    (tmp_path / "lock.txt").write_text(f"spark-kernels==0.20.0 --hash=sha256:{'0' * 64}\n")
    options = ("--index-url", f"{url}/simple", "--require-hashes", "-r", "lock.txt")
    done = client(*installer(tool, environment), *options, check=False)
    assert done.returncode != 0
    assert "hash" in done.output.lower()


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_clients_respect_requires_python(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, environment: Path, tool: str
) -> None:
    old, new = make_wheel(version="1.0", tag=X86_64), make_wheel(version="2.0", tag=X86_64, requires_python=">=4")
    publish([old, new], tmp_path / "index")
    url, _ = serve(tmp_path / "index")
    client(*installer(tool, environment), "--index-url", f"{url}/simple", "spark-kernels")
    assert installed_version(client, environment) == "1.0"
