"""Downloads from an index that truncates, drops, lies and refuses."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from builder.context import Context
from builder.errors import DigestError, FetchError, StoreError
from builder.fetch import Fetched, Index, candidates, fetch, fetch_all
from builder.model import LockedFile
from builder.store import Store
from tests.soon import soon


class Server(Protocol):
    files: dict[str, bytes]
    stated: dict[str, str]
    html: bool
    drop_after: int
    drops: int
    ranges: bool
    cut_to: int
    failures: int
    login: str
    gate: threading.Event | None
    asked: list[tuple[str, str]]
    port: int

    @property
    def url(self) -> str: ...

    def downloads(self) -> list[str]: ...

    def locked(self, name: str, *, size: int | None = None) -> LockedFile: ...


NAME = "spam-1.0.tar.gz"
DATA = os.urandom(600_000)


@pytest.fixture
def file(server: Server) -> LockedFile:
    server.files[NAME] = DATA
    return server.locked(NAME)


def leftovers(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / "blobs").glob(".*"))


@pytest.mark.parametrize("html", [False, True], ids=["PEP 691", "PEP 503"])
def test_a_file_arrives_once(server: Server, index: Index, file: LockedFile, context: Context, html: bool) -> None:
    server.html = html
    assert fetch_all([file, file], context.store, context.report, index) == Fetched(1, len(DATA))
    assert fetch(file, context.store, context.report, index).read_bytes() == DATA
    assert fetch_all([file], context.store, context.report, index) == Fetched(0, 0)
    assert server.downloads() == [""]
    assert leftovers(context.store) == []


def test_what_is_here_needs_no_index_at_all(file: LockedFile, context: Context) -> None:
    context.store.put([DATA])
    nowhere = Index(default="http://127.0.0.1:9/simple/", timeout=1)
    assert fetch(file, context.store, context.report, nowhere).read_bytes() == DATA


def test_a_dropped_connection_is_resumed_where_it_broke(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    server.drop_after = 200_000
    assert fetch_all([file], context.store, context.report, index) == Fetched(1, len(DATA))
    assert server.downloads() == ["", "bytes=200000-", "bytes=400000-"]


def test_a_server_without_ranges_starts_over_and_the_start_is_skipped(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    server.drop_after, server.drops, server.ranges = 200_000, 1, False
    assert fetch(file, context.store, context.report, index).read_bytes() == DATA
    assert server.downloads() == ["", "bytes=200000-"]


def test_a_busy_index_is_asked_again(server: Server, index: Index, file: LockedFile, context: Context) -> None:
    server.failures = 3
    assert fetch(file, context.store, context.report, index).read_bytes() == DATA


def test_an_index_that_stays_busy_is_named(server: Server, index: Index, file: LockedFile, context: Context) -> None:
    server.failures = 99
    with pytest.raises(FetchError, match="cannot reach the package index") as caught:
        fetch(file, context.store, context.report, index)
    assert "HTTP 503" in caught.value.where
    assert len(server.asked) == 4


def test_a_truncated_file_says_expected_and_received(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    server.cut_to = 1234
    with pytest.raises(FetchError, match="cut short") as caught:
        fetch(file, context.store, context.report, index)
    assert caught.value.expected == "600000 bytes, received 1234 bytes"
    assert context.store.blob(file.sha256) is None
    assert leftovers(context.store) == []


def test_other_bytes_than_the_index_promises(server: Server, index: Index, file: LockedFile, context: Context) -> None:
    server.stated[NAME] = file.sha256
    server.files[NAME] = bytes(len(DATA))
    with pytest.raises(DigestError, match="not the pinned one") as caught:
        fetch(file, context.store, context.report, index)
    assert file.sha256 in caught.value.expected
    assert context.store.blob(file.sha256) is None
    assert leftovers(context.store) == []


def test_other_bytes_that_the_index_admits_are_not_even_fetched(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    with pytest.raises(DigestError, match="other bytes under the name"):
        fetch(replace(file, sha256="0" * 64), context.store, context.report, index)
    assert server.downloads() == []


def test_a_file_longer_than_the_pin_is_stopped(index: Index, file: LockedFile, context: Context) -> None:
    with pytest.raises(DigestError, match="longer than the pinned"):
        fetch(replace(file, size=1000), context.store, context.report, index)


def test_an_unknown_file_names_project_file_and_places(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    secret = replace(index, default=server.url.replace("http://", "http://me:hunter2@"))
    with pytest.raises(FetchError) as caught:
        fetch(
            replace(file, filename="spam-9.tar.gz", version="9", sha256="1" * 64), context.store, context.report, secret
        )
    text = str(caught.value)
    assert "spam-9.tar.gz (project spam)" in text
    assert f"127.0.0.1:{server.port}/simple/" in text
    assert "it has 1.0" in text
    assert "hunter2" not in text


def test_no_network_says_how_much_is_here(file: LockedFile, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builder.fetch.session.BACKOFF", 0.01)
    stored = context.store.put([b"here"]).name
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    files = [file, replace(file, sha256=stored, size=4)]
    with pytest.raises(FetchError, match="cannot reach the package index") as caught:
        fetch_all(files, context.store, context.report, Index(default=f"http://127.0.0.1:{port}/simple/", timeout=2))
    assert caught.value.remedy == "run again with network; 1 of 2 files are here already"


def test_one_silent_place_does_not_hide_another(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    both = replace(index, default="http://127.0.0.1:9/simple/", extra=(server.url,))
    assert fetch(file, context.store, context.report, both).read_bytes() == DATA
    with pytest.raises(FetchError, match="cannot list"):
        candidates("spam", both)


def test_files_of_a_local_find_links_folder(tmp_path: Path, file: LockedFile, context: Context) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / NAME).write_bytes(DATA)
    local = Index(find_links=(str(folder), str(tmp_path / "absent")), no_index=True)
    assert [(found.filename, found.size, found.sha256) for found in candidates("spam", local)] == [
        (NAME, len(DATA), file.sha256)
    ]
    assert fetch_all([file], context.store, context.report, local) == Fetched(1, 0)


def test_candidates_have_digest_and_size(server: Server, index: Index, file: LockedFile) -> None:
    server.files["spam-2.0-py3-none-any.whl"] = b"wheel"
    found = {item.filename: (item.version, item.size, item.sha256 == file.sha256) for item in candidates("Spam", index)}
    assert found == {NAME: ("1.0", len(DATA), True), "spam-2.0-py3-none-any.whl": ("2.0", 5, False)}


def test_a_login_of_the_url_is_used_and_a_missing_one_is_named(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    server.login = "me:hunter2"
    with pytest.raises(FetchError, match="cannot reach") as caught:
        fetch(file, context.store, context.report, index)
    assert "wants a login" in caught.value.where
    known = replace(index, default=server.url.replace("http://", "http://me:hunter2@"))
    assert fetch(file, context.store, context.report, known).read_bytes() == DATA


def test_a_login_of_netrc_is_used(
    server: Server, index: Index, file: LockedFile, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.login = "me:hunter2"
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert fetch(file, context.store, context.report, index).read_bytes() == DATA


def test_a_plain_http_index_elsewhere_is_refused_unless_trusted(file: LockedFile, context: Context) -> None:
    with pytest.raises(FetchError) as caught:
        fetch(file, context.store, context.report, Index(default="http://index.invalid/simple/"))
    assert "not https and not a trusted host" in caught.value.where


def test_a_full_disk_is_said_and_leaves_nothing(
    index: Index, file: LockedFile, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_client: object, _url: str, _offset: int, _total: int) -> Iterable[bytes]:
        yield DATA[:1000]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("builder.fetch.stream.read_from", full)
    with pytest.raises(StoreError, match="the disk is full"):
        fetch(file, context.store, context.report, index)
    assert leftovers(context.store) == []


CHILD = """
import sys
from pathlib import Path
from builder.fetch import Index, fetch_all
from builder.model import LockedFile
from builder.report import Report
from builder.store import Store
store, url, sha256, size = sys.argv[1:]
file = LockedFile("spam", "1.0", "spam-1.0.tar.gz", sha256, int(size))
print("go", flush=True)
print(fetch_all([file], Store(Path(store)), Report(quiet=True), Index(default=url, timeout=20)).files)
"""


def child(server: Server, file: LockedFile, store: Store) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, str(store.root), server.url, file.sha256, str(file.size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_two_processes_at_once_fetch_once(server: Server, file: LockedFile, context: Context) -> None:
    server.gate = threading.Event()
    pair = [child(server, file, context.store) for _ in range(2)]
    assert soon(server.downloads)
    time.sleep(0.3)
    server.gate.set()
    brought = sorted(int(process.communicate(timeout=20)[0].split()[-1]) for process in pair)
    assert [process.returncode for process in pair] == [0, 0]
    assert brought == [0, 1]
    assert server.downloads() == [""]


def test_kill_9_during_a_download_leaves_nothing_half_there(
    server: Server, index: Index, file: LockedFile, context: Context
) -> None:
    server.gate = threading.Event()
    victim = child(server, file, context.store)
    assert soon(lambda: leftovers(context.store))
    assert context.store.sweep(older_than=0) == 0, "a living download is left alone"
    victim.send_signal(signal.SIGKILL)
    victim.communicate(timeout=10)
    server.gate.set()
    assert context.store.blob(file.sha256) is None
    assert fetch(file, context.store, context.report, index).read_bytes() == DATA
    assert context.store.sweep(older_than=0) == 1
    assert leftovers(context.store) == []


def test_ctrl_c_ends_a_silent_download_soon(server: Server, file: LockedFile, context: Context) -> None:
    server.gate = threading.Event()
    victim = child(server, file, context.store)
    assert soon(server.downloads)
    start = time.monotonic()
    victim.send_signal(signal.SIGINT)
    victim.communicate(timeout=10)
    assert time.monotonic() - start < 5
    assert victim.returncode != 0
    assert context.store.blob(file.sha256) is None


def test_the_first_failure_stops_the_others(server: Server, index: Index, file: LockedFile, context: Context) -> None:
    absent = [replace(file, filename=f"spam-{n}.tar.gz", sha256=f"{n:064x}") for n in range(2, 40)]
    with pytest.raises(FetchError, match="has no spam-") as caught:
        fetch_all([*absent, file], context.store, context.report, index)
    assert "of 39 files are here already" in caught.value.remedy
    assert [path for path, _ in server.asked].count("/simple/spam/") == 1
