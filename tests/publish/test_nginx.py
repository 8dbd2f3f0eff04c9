"""The nginx configuration that docs/index.md gives, run by a real nginx."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from builder.publish import publish
from tests.publish.clients import TOOLS, Client, installed_version, installer
from tests.publish.conftest import MakeWheel
from tests.publish.wheels import LOCAL, X86_64

DOCUMENT = Path(__file__).parents[2] / "docs/index.md"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
JSON = "application/vnd.pypi.simple.v1+json"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")


@pytest.fixture
def site(tmp_path: Path, make_wheel: MakeWheel) -> Iterator[str]:
    """A published index behind the documented configuration."""
    publish([make_wheel(tag=X86_64), make_wheel()], tmp_path / "index")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([str(NGINX), "-e", "stderr", "-c", str(_configuration(tmp_path, port))])
    _wait(port)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def _configuration(folder: Path, port: int) -> Path:
    (snippet,) = re.findall(r"```nginx\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    snippet = snippet.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace("/srv/index", str(folder / "index"))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/nginx-{kind};\n" for kind in kinds)
    process = f"user root;\ndaemon off;\npid {folder}/nginx.pid;\nevents {{}}\n"
    path = folder / "nginx.conf"
    path.write_text(f"{process}http {{\naccess_log off;\n{temporary}{snippet}}}\n")
    return path


def _wait(port: int) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
        else:
            return


def get(url: str, accept: str = "*/*") -> tuple[bytes, Message]:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept})) as answer:  # noqa: S310
        return answer.read(), answer.headers


@pytest.mark.parametrize("path", ["/simple/", "/simple/spark-kernels/"])
@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html", "text/html"),
        (f"{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01", JSON),
    ],
)
def test_the_page_follows_the_accept_header(site: str, tmp_path: Path, path: str, accept: str, kind: str) -> None:
    data, headers = get(site + path, accept)
    name = "index.json" if kind == JSON else "index.html"
    assert data == (tmp_path / f"index{path}{name}").read_bytes()
    assert headers.get_content_type() == kind
    assert headers["Cache-Control"] == "no-cache"
    assert headers["Vary"] == "Accept"
    assert headers["ETag"]


def test_files_are_cached_for_ever_and_pages_are_asked_again(site: str, tmp_path: Path) -> None:
    wheel = next((tmp_path / "index").rglob("*.whl"))
    data, headers = get(f"{site}/{wheel.relative_to(tmp_path / 'index').as_posix().replace('+', '%2B')}")
    assert data == wheel.read_bytes()
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    _, headers = get(f"{site}/simple/")
    request = urllib.request.Request(f"{site}/simple/", headers={"If-None-Match": headers["ETag"]})  # noqa: S310
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)  # noqa: S310
    assert caught.value.code == 304
    caught.value.close()


@pytest.mark.parametrize("path", ["/.lock", "/simple/spark-kernels/.index.json.x", "/files/aa/.part-x"])
def test_working_files_are_not_served(site: str, tmp_path: Path, path: str) -> None:
    place = tmp_path / "index" / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"half")
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(site + path)
    assert caught.value.code == 403
    caught.value.close()


@pytest.mark.parametrize("tool", TOOLS)
def test_clients_install_through_json(tmp_path: Path, site: str, client: Client, environment: Path, tool: str) -> None:
    for page in (tmp_path / "index").rglob("index.html"):
        page.unlink()
    client(*installer(tool, environment), "--index-url", f"{site}/simple", "spark-kernels")
    assert installed_version(client, environment) == LOCAL
