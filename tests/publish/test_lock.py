"""A lock that uv made against the index outlives what is published and taken back later, in a folder and in S3."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builder.publish import gc, publish, rollback
from tests.publish.buckets import PLACE
from tests.publish.clients import TOOLS, UV, Client, installed_version, installer
from tests.publish.conftest import MakeWheel, Serve
from tests.publish.wheels import AARCH64, X86_64

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def compiled(client: Client, url: str) -> None:
    options = (
        "--no-cache",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--quiet",
        "--index-url",
        f"{url}/simple",
    )
    client(*UV, "pip", "compile", *options, "wanted.in", "--output-file", "lock.txt")


def outlives(
    index: Path | str, url: str, tmp_path: Path, make_wheel: MakeWheel, client: Client, install: tuple[str | Path, ...]
) -> str:
    """Lock, publish ten more, roll five back, collect; then resolve again, and install what was locked."""
    (tmp_path / "wanted.in").write_text("spark-kernels>=1.0\n")
    publish([make_wheel(version="1.0", tag=tag) for tag in (X86_64, AARCH64)], index, now=START)
    compiled(client, url)
    locked = (tmp_path / "lock.txt").read_text()
    assert locked.startswith("spark-kernels==1.0 ")
    assert locked.count("--hash=sha256:") == 2  # both platforms
    for n in range(10):
        publish([make_wheel(version=f"2.{n}", tag=X86_64)], index, now=START + (1 + n) * DAY)
    rollback(index, to=START + 5 * DAY)
    gc(index, keep=2, locks=[tmp_path / "lock.txt"])
    gc(index, keep=2, locks=[tmp_path / "lock.txt"], now=datetime.now(UTC) + 9 * DAY)
    compiled(client, url)
    assert (tmp_path / "lock.txt").read_text() == locked
    client(*install, "--index-url", f"{url}/simple", "--require-hashes", "-r", "lock.txt")
    (tmp_path / "lock.txt").unlink()
    compiled(client, url)
    return (tmp_path / "lock.txt").read_text()


@pytest.mark.parametrize("tool", TOOLS)
def test_in_a_folder(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, environment: Path, tool: str
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    anew = outlives(index, serve(index)[0], tmp_path, make_wheel, client, installer(tool, environment))
    assert installed_version(client, environment) == "1.0"
    assert anew.startswith("spark-kernels==2.4 ")  # the newest that was not rolled back


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_in_a_bucket(
    tmp_path: Path, make_wheel: MakeWheel, website: str, client: Client, environment: Path, tool: str
) -> None:
    anew = outlives(PLACE, website, tmp_path, make_wheel, client, installer(tool, environment))
    assert installed_version(client, environment) == "1.0"
    assert anew.startswith("spark-kernels==2.4 ")
