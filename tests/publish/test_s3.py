"""The same index in S3-compatible storage, against a real server on localhost."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
import pytest

from builder.errors import PublishError, StoreError
from builder.publish import gc, publish, rollback, run_verb
from builder.publish.index import read_project
from builder.publish.pages import project_html
from builder.publish.s3 import ObjectShelf
from builder.publish.shelf import Kept
from builder.resume import earlier
from builder.store import Store
from tests.publish.buckets import PLACE, signed
from tests.publish.clients import TOOLS, Client, installed_version, installer
from tests.publish.conftest import MakeWheel
from tests.publish.wheels import AARCH64, LOCAL, X86_64, verified

ROOT = Path(__file__).parents[2]


def test_publish_again_and_refuse(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    wheels = [make_wheel(), make_wheel(tag=X86_64)]
    assert len(publish(wheels, PLACE).added) == 2
    assert publish(wheels, PLACE).pages == ()
    before = {item.key: item for item in ObjectShelf.open(PLACE).items("")}
    with pytest.raises(PublishError, match="taken by other bytes"):
        publish([make_wheel(payload=b"other")], PLACE)
    assert {item.key: item for item in ObjectShelf.open(PLACE).items("")} == before
    assert len(before) == 4 + 4


def test_objects_carry_type_and_caching(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    publish([make_wheel()], PLACE)
    seen = {}
    for item in ObjectShelf.open(PLACE).items(""):
        with urllib.request.urlopen(signed(item.key)) as answer:  # noqa: S310
            seen[Path(item.key).suffix] = (answer.headers["Content-Type"], answer.headers["Cache-Control"])
    immutable = "public, max-age=31536000, immutable"
    assert seen == {
        ".html": ("text/html; charset=utf-8", "no-cache"),
        ".json": ("application/vnd.pypi.simple.v1+json", "no-cache"),
        ".whl": ("application/octet-stream", immutable),
        ".metadata": ("text/plain; charset=utf-8", immutable),
    }


def test_a_page_is_written_only_over_what_was_read(bucket: str) -> None:
    assert bucket
    shelf, key = ObjectShelf.open(PLACE), "simple/index.json"
    assert shelf.read(key) is None
    assert shelf.write(key, b"one", over=None)
    assert not shelf.write(key, b"two", over=None)
    first = shelf.read(key)
    assert first is not None
    assert shelf.write(key, b"two", over=first)
    assert not shelf.write(key, b"three", over=first)
    assert not shelf.write("simple/none/index.json", b"x", over=Kept(b"", first.version))
    second = shelf.read(key)
    assert second is not None
    assert second.data == b"two"


def test_a_large_wheel_goes_up_in_parts(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    wheel = make_wheel(payload=os.urandom(20 << 20))
    publish([wheel], PLACE)
    (key,) = [item.key for item in ObjectShelf.open(PLACE).items("files") if item.key.endswith(".whl")]
    data = bytes(obstore.get(ObjectShelf.open(PLACE).store, key).bytes())
    assert hashlib.sha256(data).hexdigest() == wheel.wheel.sha256


@pytest.mark.parametrize("size", [100, 20 << 20])
def test_bytes_that_changed_never_appear(bucket: str, tmp_path: Path, size: int) -> None:
    assert bucket
    path = tmp_path / "x.whl"
    path.write_bytes(b"x" * size)
    with pytest.raises(PublishError, match="changed after it was verified"):
        ObjectShelf.open(PLACE).put_file("files/aa/x.whl", path, "0" * 64)
    assert list(ObjectShelf.open(PLACE).items("")) == []


def test_rollback_and_gc(bucket: str, make_wheel: MakeWheel, tmp_path: Path) -> None:
    assert bucket
    for day, version in enumerate(("1.0", "2.0", "3.0")):
        publish([make_wheel(version=version)], PLACE, now=datetime(2026, 11, 1 + day, tzinfo=UTC))
    assert rollback(PLACE).files == (f"spark_kernels-3.0-{AARCH64}.whl",)
    lock = tmp_path / "lock.txt"
    lock.write_text(next(iter(read_project(ObjectShelf.open(PLACE), "spark-kernels").files)).sha256)
    run_verb(["lock", "add", str(lock)], {}, PLACE)
    assert run_verb(["gc"], {"keep": "1"}, PLACE)[0]["retired"] == ()
    run_verb(["lock", "remove", "lock.txt"], {}, PLACE)
    assert len(gc(PLACE, keep=1).retired) == 1
    later = gc(PLACE, keep=1, now=datetime.now(UTC) + timedelta(days=2))
    assert len(later.deleted) == 2
    assert len(list(ObjectShelf.open(PLACE).items("files"))) == 4


def test_an_object_goes_although_the_list_knows_its_age_more_finely(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    publish([make_wheel()], PLACE)
    shelf = ObjectShelf.open(PLACE)
    item = next(item for item in shelf.items("files"))
    second = item.written.replace(microsecond=0)
    assert not shelf.delete(replace(item, written=second - timedelta(seconds=1)))
    assert shelf.has(item.key, item.size)
    assert shelf.delete(replace(item, written=second + timedelta(milliseconds=734)))
    assert not shelf.has(item.key, item.size)


def test_a_build_asks_the_bucket_whether_it_has_the_wheels(bucket: str, make_wheel: MakeWheel, tmp_path: Path) -> None:
    assert bucket
    here, other = make_wheel().wheel, make_wheel(version="2.0").wheel
    publish([verified(here.path)], PLACE)
    for wheel, stands in ((here, True), (other, False)):
        store = Store(tmp_path / "store")
        entry = {"name": wheel.name, "file": wheel.path.name, "size": wheel.size, "sha256": wheel.sha256}
        store.keep_record("build", "key", {"folder": str(wheel.path.parent), "index": PLACE, "wheels": [entry]})
        assert (earlier(store, "key") is not None) is stands


@pytest.mark.slow
def test_three_publishers_at_once_lose_nothing(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    shares = [[make_wheel("one", f"{n}.{who}").wheel.path for n in range(5)] for who in range(3)]
    racers = [
        subprocess.Popen([sys.executable, "-m", "tests.publish.publisher", "--each", PLACE, *share], cwd=ROOT)
        for share in shares
    ]
    assert [racer.wait() for racer in racers] == [0, 0, 0]
    shelf = ObjectShelf.open(PLACE)
    html, state = shelf.read("simple/one/index.html"), read_project(shelf, "one")
    assert html is not None
    assert html.data == project_html(state)
    assert {file.filename for file in state.files} == {path.name for share in shares for path in share}
    assert all(shelf.has(file.key, file.size) for file in state.files)
    assert state.serial == 15


def test_a_store_that_refuses_is_said(bucket: str, make_wheel: MakeWheel) -> None:
    assert bucket
    with pytest.raises(StoreError, match="object store refused"):
        publish([make_wheel()], "s3://no-such-bucket/index")


@pytest.mark.parametrize("words", [["rollback"], ["refresh"]])
def test_no_login_is_said_soon(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")  # where a cloud's machine has its role
    asked: list[object] = []
    monkeypatch.setattr("builder.publish.s3.S3Store", lambda *args, **_: asked.append(args))
    with pytest.raises(StoreError, match="no login for the object store") as caught:
        run_verb(words, {}, PLACE)
    assert "AWS_ACCESS_KEY_ID" in caught.value.expected
    assert asked == []  # the library would ask again and again


@pytest.mark.parametrize("words", [["rollback"], ["refresh"]])
def test_a_prefix_that_is_no_index_is_said(bucket: str, words: list[str]) -> None:
    assert bucket
    with pytest.raises(PublishError, match="no index here"):
        run_verb(words, {}, PLACE)


def test_other_addresses_are_refused(make_wheel: MakeWheel) -> None:
    with pytest.raises(PublishError, match="no place for an index"):
        publish([make_wheel()], "ftp://host/index")


@pytest.mark.parametrize("tool", TOOLS)
def test_clients_install_from_the_bucket(
    tmp_path: Path, make_wheel: MakeWheel, website: str, client: Client, environment: Path, tool: str
) -> None:
    wheel = make_wheel(tag=X86_64)
    publish([wheel, make_wheel()], PLACE)
    (tmp_path / "lock.txt").write_text(f"spark-kernels=={LOCAL} --hash=sha256:{wheel.wheel.sha256}\n")
    client(*installer(tool, environment), "--index-url", f"{website}/simple", "--require-hashes", "-r", "lock.txt")
    assert installed_version(client, environment) == LOCAL
