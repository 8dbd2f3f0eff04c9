"""A package index on localhost that can misbehave in each way that the tests name."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from builder.fetch import Index
from builder.model import LockedFile


@dataclass
class PackageIndex:
    """Files by name, how to misbehave, and what was asked.

    `drop_after`: close the connection after that many bytes of each answer. `cut_to`: claim
    the whole length of the cut file. `failures`: answer so many requests with 503 first.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    project: str = "spam"
    html: bool = False
    stated: dict[str, str] = field(default_factory=dict)
    drop_after: int = 0
    drops: int = 10**9
    ranges: bool = True
    cut_to: int = 0
    failures: int = 0
    login: str = ""
    gate: threading.Event | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple/"

    def downloads(self) -> list[str]:
        """The Range header of each request for a file, empty when it had none."""
        return [span for path, span in self.asked if path.startswith("/files/")]

    def locked(self, name: str, *, size: int | None = None) -> LockedFile:
        data = self.files[name]
        return LockedFile(
            self.project, "1.0", name, hashlib.sha256(data).hexdigest(), len(data) if size is None else size
        )

    def page(self) -> tuple[str, bytes]:
        if self.html:
            rows = "".join(f'<a href="/files/{name}">{name}</a>' for name in self.files)
            return "text/html", f"<!DOCTYPE html><html><body>{rows}</body></html>".encode()
        rows_json = [
            {
                "filename": name,
                "url": f"/files/{name}",
                "hashes": {"sha256": self.stated.get(name, hashlib.sha256(data).hexdigest())},
                "size": len(data),
            }
            for name, data in self.files.items()
        ]
        body = json.dumps({"meta": {"api-version": "1.1"}, "name": self.project, "files": rows_json})
        return "application/vnd.pypi.simple.v1+json", body.encode()


class Handler(BaseHTTPRequestHandler):
    index: ClassVar[PackageIndex]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self.index.asked.append((self.path, self.headers.get("Range", "")))
        wanted = base64.b64encode(self.index.login.encode()).decode()
        if self.index.login and self.headers.get("Authorization") != f"Basic {wanted}":
            self._answer(401, "text/plain", b"who are you?")
        elif self.index.failures > 0:
            self.index.failures -= 1
            self._answer(503, "text/plain", b"later")
        elif self.path == f"/simple/{self.index.project}/":
            self._answer(200, *self.index.page())
        elif self.path.removeprefix("/files/") in self.index.files:
            self._file(self.index.files[self.path.removeprefix("/files/")])
        else:
            self._answer(404, "text/plain", b"no such page")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, data: bytes) -> None:
        if self.index.gate is not None:
            self.index.gate.wait(10)
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(match[1]) if match and self.index.ranges else 0
        whole = data[: self.index.cut_to] if self.index.cut_to else data
        if start >= len(whole) and start:
            self._answer(416, "text/plain", b"")
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        self.send_header("Content-Length", str(len(whole) - start))
        self.end_headers()
        self._body(whole[start:])

    def _body(self, body: bytes) -> None:
        if self.index.drop_after and self.index.drops > 0 and len(body) > self.index.drop_after:
            self.index.drops -= 1
            self.wfile.write(body[: self.index.drop_after])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(body)


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[PackageIndex]:
    index = PackageIndex()
    with _QuietServer(("127.0.0.1", 0), type("Bound", (Handler,), {"index": index})) as http:
        index.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield index
        if index.gate is not None:
            index.gate.set()
        http.shutdown()
        thread.join()


@pytest.fixture
def index(server: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr("builder.fetch.stream.BACKOFF", 0.01)
    monkeypatch.setattr("builder.fetch.session.BACKOFF", 0.01)
    return Index(default=server.url, timeout=5)
