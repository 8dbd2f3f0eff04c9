"""Fixtures: wheels to publish, a static server, and an environment for real clients."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

import pytest

from builder.model import VerifiedWheel
from builder.run import Completed, run
from tests.publish.buckets import bucket, s3_server, website
from tests.publish.clients import UV, Client
from tests.publish.wheels import AARCH64, LOCAL, build_wheel, verified

__all__ = ["bucket", "s3_server", "website"]


class MakeWheel(Protocol):
    """Makes a real wheel with a good verdict."""

    def __call__(
        self,
        name: str = ...,
        version: str = ...,
        tag: str = ...,
        *,
        payload: bytes = ...,
        requires_python: str = ...,
        requires: Sequence[str] = ...,
    ) -> VerifiedWheel: ...


class Serve(Protocol):
    """Serves a folder; gives its address on localhost and the list of requests it has had."""

    def __call__(self, folder: Path) -> tuple[str, list[str]]: ...


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    def make(
        name: str = "spark-kernels",
        version: str = LOCAL,
        tag: str = AARCH64,
        *,
        payload: bytes = b"code",
        requires_python: str = ">=3.8",
        requires: Sequence[str] = (),
    ) -> VerifiedWheel:
        folder = tmp_path / "wheels" / hashlib.sha256(payload).hexdigest()[:8]
        return verified(
            build_wheel(folder, name, version, tag, payload=payload, requires_python=requires_python, requires=requires)
        )

    return make


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        log: list[str] = getattr(self.server, "requests")  # noqa: B009
        log.append(format % args)


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[ThreadingHTTPServer] = []

    def start(folder: Path) -> tuple[str, list[str]]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
        requests: list[str] = []
        server.requests = requests  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", requests

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def client_env(tmp_path: Path) -> dict[str, str]:
    """No pip or uv setting of this machine reaches a client, and it reaches nothing but localhost."""
    foreign = ("PIP_", "UV_", "PYTHON", "XDG_", "HTTP", "NO_PROXY", "ALL_PROXY")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(foreign)}
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    folders = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "UV_CACHE_DIR"), str(tmp_path / "home"))
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return kept | nowhere | folders | pip | {"no_proxy": "127.0.0.1,localhost"}


@pytest.fixture
def client(client_env: Mapping[str, str], tmp_path: Path) -> Client:
    def call(*argv: str | Path, check: bool = True) -> Completed:
        return run(argv, cwd=tmp_path, env=client_env, check=check)

    return call


@pytest.fixture
def environment(client: Client, tmp_path: Path) -> Path:
    """A fresh virtual environment's Python."""
    client(*UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv")
    return tmp_path / "venv/bin/python"
