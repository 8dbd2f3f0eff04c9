"""Which of the caller's settings count; what did not reach the storage is counted, told, and ends a share."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from builder.commands import _effort
from builder.compile.cache import _environment, check_written, compiler_cache, counts_in, settled
from builder.compile.host import Compilers
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.errors import StoreError, ToolchainError


def stats(*, misses: int = 4, writes: int = 4, errors: int = 0) -> dict[str, Any]:
    return {
        "cache_hits": {"counts": {"CUDA": 2, "PTX": 1}, "adv_counts": {}},
        "cache_misses": {"counts": {"CUDA": misses - 1, "CUBIN": 1}, "adv_counts": {}},
        "cache_read_errors": 5,
        "cache_write_errors": errors,
        "cache_writes": writes,
    }


def test_every_figure_has_its_counter() -> None:
    found = counts_in(stats(writes=1, errors=3))
    assert found == {
        "cache hits": 3,
        "cache misses": 4,
        "cache entries unreadable": 5,
        "cache writes failed": 3,
    }
    assert counts_in(stats())["cache writes failed"] == 0
    assert counts_in(stats(writes=2))["cache writes failed"] == 2, "given up when the server stops"


def test_it_waits_for_what_is_still_being_written_but_not_for_ever() -> None:
    told = iter([stats(writes=1, errors=1), stats(writes=2, errors=1), stats(writes=3, errors=1), stats()])
    assert settled(lambda: next(told)) == stats(writes=3, errors=1)
    assert settled(lambda: stats(writes=1), patience=0.3) == stats(writes=1)


@pytest.mark.parametrize(
    ("counters", "said"), [({"cache writes failed": 2}, "2 objects of share 1/2"), ({}, "does not")]
)
def test_a_share_that_did_not_reach_the_storage_ends_in_an_error(
    counters: dict[str, int], said: str, context: Context
) -> None:
    context.report.counters.update(counters)
    with pytest.raises(StoreError, match=said) as refused:
        check_written(context, "1/2")
    assert "run the same share again" in refused.value.remedy


def test_one_that_did_ends_well(context: Context) -> None:
    context.report.counters["cache writes failed"] = 0
    check_written(context, "1/2")


def test_the_summary_names_them() -> None:
    counts = {"cache hits": 1, "cache misses": 2, "cache entries unreadable": 1, "cache writes failed": 2}
    lines = _effort({"counts": counts, "seconds": {"total": 1.0}})
    assert lines[1:] == [
        "1 cache entry could not be read: compiled again",
        "2 cache writes failed: compiled again by whoever needs that next",
    ]
    assert len(_effort({"counts": {"cache hits": 1}, "seconds": {"total": 1.0}})) == 1


HOW_IT_RUNS = {
    "SCCACHE_SERVER_UDS": "/tmp/mine",  # noqa: S108  never made
    "SCCACHE_SERVER_PORT": "4226",
    "SCCACHE_IDLE_TIMEOUT": "1",
    "SCCACHE_NO_DAEMON": "1",
    "SCCACHE_DIRECT": "true",
    "SCCACHE_START_SERVER": "1",
}


def test_the_caller_says_where_the_cache_is_and_not_how_its_server_runs(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_WHEELS_ROOT", str(tmp_path))
    plain = _environment(context)
    for name, value in (HOW_IT_RUNS | {"SCCACHE_BUCKET": "mine", "SCCACHE_CACHE_SIZE": "1G"}).items():
        monkeypatch.setenv(name, value)
    found = _environment(context)
    assert {name: found.pop(name) for name in ("SCCACHE_BUCKET", "SCCACHE_CACHE_SIZE")} == {
        "SCCACHE_BUCKET": "mine",
        "SCCACHE_CACHE_SIZE": "1G",
    }
    plain.pop("SCCACHE_CACHE_SIZE")
    assert found == plain


def test_a_proxy_before_the_storage_is_passed_on(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_WHEELS_ROOT", str(tmp_path))
    settings = {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": ".local"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert settings.items() <= _environment(context).items()


def test_a_folder_too_deep_for_a_socket_is_said(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sccache would say that its server timed out."""
    root = tmp_path / ("x" * 100)
    monkeypatch.setenv("SPARK_WHEELS_ROOT", str(root))
    compilers = Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False)
    toolchain = Toolchain("k", "index", "aarch64", "13", "2", root, root, root, root, root, compilers)
    with pytest.raises(ToolchainError, match="too long a path") as told, compiler_cache(toolchain, context):
        pass
    assert "shorter folder" in told.value.remedy


@pytest.mark.compile
def test_a_server_that_the_caller_would_not_have_as_a_daemon_starts_all_the_same(
    toolchain: Toolchain, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in HOW_IT_RUNS.items():
        monkeypatch.setenv(name, value)
    with compiler_cache(toolchain, context) as cache:
        compile_one(toolchain, cache, tmp_path, "int one;\n")
    assert context.report.counters["cache misses"] == 1


@pytest.fixture
def redis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A Redis that sccache is told to use; gives the door to its settings."""
    tool, client = shutil.which("redis-server"), shutil.which("redis-cli")
    if tool is None or client is None:
        pytest.skip("no redis-server in PATH")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    monkeypatch.setenv("SCCACHE_REDIS_ENDPOINT", f"redis://127.0.0.1:{port}")

    def ask(*words: str) -> str:
        return subprocess.run([client, "-p", port, *words], capture_output=True, text=True, check=False).stdout.strip()

    server = subprocess.Popen([tool, "--port", port, "--save", ""], cwd=tmp_path, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 10
    while ask("ping") != "PONG" and time.monotonic() < end:
        time.sleep(0.05)
    yield ask
    server.terminate()
    server.wait(10)


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """As much of one as sccache needs."""
    sccache = shutil.which("sccache")
    if sccache is None:
        pytest.skip("no sccache in PATH")
    monkeypatch.setenv("SPARK_WHEELS_ROOT", str(tmp_path / "root"))
    (tmp_path / "toolchain").mkdir()
    (tmp_path / "toolchain/bin").symlink_to(Path(sccache).parent)
    place = tmp_path / "toolchain"
    compilers = Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False)
    return Toolchain("k", "index", "x86_64", "13", "2", place, place, place, place, place, compilers)


def compile_one(toolchain: Toolchain, cache: Mapping[str, str], folder: Path, text: str) -> None:
    (folder / "x.cpp").write_text(text)
    words: list[str | Path] = [toolchain.bin / "sccache", "g++", "-c", "x.cpp", "-o", "x.o"]
    subprocess.run(words, cwd=folder, env={"PATH": os.environ["PATH"], **cache}, check=True)


@pytest.mark.compile
def test_a_storage_that_is_full_is_counted(
    toolchain: Toolchain, redis: Callable[..., str], context: Context, tmp_path: Path
) -> None:
    with compiler_cache(toolchain, context) as cache:
        compile_one(toolchain, cache, tmp_path, "int one;\n")
    assert context.report.counters["cache writes failed"] == 0
    assert redis("dbsize") not in {"", "0"}
    with compiler_cache(toolchain, context) as cache:
        redis("config", "set", "maxmemory", "1")
        compile_one(toolchain, cache, tmp_path, "int two;\n")
    assert context.report.counters["cache misses"] == 2
    assert context.report.counters["cache writes failed"] == 1
    with pytest.raises(StoreError, match="1 object of share 1/1"):
        check_written(context, "1/1")
