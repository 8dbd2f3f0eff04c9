"""A bucket of a real S3 server on localhost, and a front that serves it as a bucket's website endpoint does."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import obstore
import pytest

from builder.publish.s3 import ObjectShelf

PLACE = "s3://wheels/team/index"


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  the base class names it so
            pass

    # one request at a time: the test server's own check-then-write is not atomic, a real store's is
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=False, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty bucket; returns the server's address."""
    settings = {
        "AWS_ENDPOINT_URL": s3_server, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for path, method in (("/moto-api/reset", "POST"), ("/wheels", "PUT")):
        urllib.request.urlopen(urllib.request.Request(s3_server + path, method=method)).close()  # noqa: S310
    return s3_server


def signed(key: str) -> str:
    """An address that gives the object to anyone for a minute."""
    return obstore.sign(ObjectShelf.open(PLACE).store, "GET", key, timedelta(minutes=1))


@pytest.fixture
def website(bucket: str) -> Iterator[str]:
    """What a bucket's website endpoint does: a folder's address gives its index.html."""

    assert bucket

    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            key = unquote(self.path.lstrip("/")) + ("index.html" if self.path.endswith("/") else "")
            try:
                with urllib.request.urlopen(signed(key)) as answer:  # noqa: S310
                    self.send_response(200)
                    self.send_header("Content-Type", answer.headers["Content-Type"])
                    self.end_headers()
                    self.wfile.write(answer.read())
            except urllib.error.HTTPError as error:
                error.close()
                self.send_error(error.code)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
