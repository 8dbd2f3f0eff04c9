"""The index as a whole: what is written, what is refused, and that refusing changes nothing."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builder.errors import PublishError, StoreError
from builder.model import Promise
from builder.publish import publish
from builder.publish.entry import IndexFile
from tests.publish.conftest import MakeWheel
from tests.publish.reader import links_of, listed, listed_json, snapshot
from tests.publish.wheels import AARCH64, LOCAL, X86_64, verified

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PAGE = "simple/spark-kernels/index.json"


def test_a_first_publish_writes_both_kinds_of_page(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index, wheel = tmp_path / "index", make_wheel(requires_python=">=3.8,<4")
    done = publish([wheel], index, now=NOON)
    assert done.added == (wheel.wheel.path.name,)
    assert done.pages == (PAGE, "simple/spark-kernels/index.html", "simple/index.json", "simple/index.html")
    page = json.loads((index / PAGE).read_bytes())
    assert page["meta"] == {"_last-serial": 1, "api-version": "1.3"}
    assert (page["name"], page["versions"]) == ("spark-kernels", [LOCAL])
    (file,) = page["files"]
    assert file["size"] == wheel.wheel.size
    assert file["upload-time"] == "2026-11-30T12:00:00.000000Z"
    assert file["requires-python"] == "<4,>=3.8"
    assert listed(index) == listed_json(index) == {wheel.wheel.path.name: wheel.wheel.sha256}


def test_the_html_link_quotes_the_local_version_and_escapes_attributes(tmp_path: Path, make_wheel: MakeWheel) -> None:
    publish([make_wheel(requires_python=">=3.8,<4")], tmp_path / "index")
    html = (tmp_path / "index/simple/spark-kernels/index.html").read_bytes()
    ((href, attributes, text),) = links_of(html)
    assert "0.20.0%2Baeon7.1.p1a2b3c4d" in href
    assert "+" not in href
    assert text == f"spark_kernels-{LOCAL}-{AARCH64}.whl"
    assert attributes["data-requires-python"] == "<4,>=3.8"
    assert attributes["data-dist-info-metadata"] == attributes["data-core-metadata"]
    assert b'data-requires-python="&lt;4,&gt;=3.8"' in html


def test_the_metadata_file_is_the_wheels_own(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel = make_wheel()
    publish([wheel], tmp_path / "index")
    (beside,) = (tmp_path / "index").rglob("*.metadata")
    with zipfile.ZipFile(wheel.wheel.path) as archive:
        assert beside.read_bytes() == archive.read(f"spark_kernels-{LOCAL}.dist-info/METADATA")


def test_names_are_normalised(tmp_path: Path, make_wheel: MakeWheel) -> None:
    publish([make_wheel("Spark.Kernels_Extra")], tmp_path / "index")
    assert [href for href, _, _ in links_of((tmp_path / "index/simple/index.html").read_bytes())] == [
        "spark-kernels-extra/"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("spark_kernels-", "Spark.Kernels-"), ("+spark.1", "+SPARK_1"), (f"-{AARCH64}", f"-1-{AARCH64}")],
)
def test_another_spelling_of_a_name_is_no_other_file(tmp_path: Path, make_wheel: MakeWheel, old: str, new: str) -> None:
    index = tmp_path / "index"
    path = make_wheel(version="1.0+spark.1").wheel.path
    publish([verified(path)], index)
    other = path.with_name(path.name.replace(old, new))
    assert other.name != path.name
    before = snapshot(index)
    with pytest.raises(PublishError, match="another spelling"):
        publish([verified(path.rename(other))], index)
    assert snapshot(index) == before


def test_the_same_bytes_again_write_nothing(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    wheels = [make_wheel(), make_wheel(tag=X86_64), make_wheel("other", "1.0")]
    publish(wheels, index, now=NOON)
    before = snapshot(index)
    done = publish(wheels, index, now=NOON + timedelta(days=1))
    assert (done.added, done.pages) == ((), ())
    assert len(done.unchanged) == 3
    assert snapshot(index) == before


def test_a_file_kept_earlier_keeps_its_upload_time(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    publish([make_wheel(version="1.0")], index, now=NOON)
    publish([make_wheel(version="1.0"), make_wheel(version="1.1")], index, now=NOON + timedelta(hours=1))
    times = {file["filename"][14:17]: file["upload-time"] for file in json.loads((index / PAGE).read_bytes())["files"]}
    assert times == {"1.0": "2026-11-30T12:00:00.000000Z", "1.1": "2026-11-30T13:00:00.000000Z"}


def test_order_of_publishing_decides_nothing(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheels = [make_wheel(version=version) for version in ("1.10", "1.9", "1.9rc1")] + [make_wheel("b"), make_wheel("a")]
    publish(wheels, tmp_path / "one", now=NOON)
    publish(wheels[::-1], tmp_path / "two", now=NOON)
    one, two = snapshot(tmp_path / "one"), snapshot(tmp_path / "two")
    assert {key: data for key, (data, _) in one.items()} == {key: data for key, (data, _) in two.items()}
    assert json.loads(one[PAGE][0])["versions"] == ["1.9rc1", "1.9", "1.10", LOCAL][:3]


def test_another_project_leaves_other_pages_alone(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    publish([make_wheel("one")], index)
    before = snapshot(index)
    publish([make_wheel("two")], index)
    after = snapshot(index)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"simple/index.json", "simple/index.html"}


def test_a_taken_name_with_other_bytes_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    publish([make_wheel(payload=b"first")], index)
    before = snapshot(index)
    with pytest.raises(PublishError, match="taken by other bytes") as caught:
        publish([make_wheel("fresh"), make_wheel(payload=b"second")], index)
    assert "spark_kernels-0.20.0+aeon7" in caught.value.where
    assert snapshot(index) == before


def test_one_call_cannot_bring_two_files_of_one_name(tmp_path: Path, make_wheel: MakeWheel) -> None:
    with pytest.raises(PublishError, match="taken by other bytes"):
        publish([make_wheel(payload=b"first"), make_wheel(payload=b"second")], tmp_path / "index")
    assert not (tmp_path / "index").exists()


PROMISE = frozenset({Promise("spark_kernels", "linux-aarch64"), Promise("spark-kernels", "linux-x86_64")})


def test_one_of_two_promised_platforms_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    publish([make_wheel(version="1.0"), make_wheel(version="1.0", tag=X86_64)], index, promised=PROMISE)
    before = snapshot(index)
    with pytest.raises(PublishError, match="promises 1 wheel more") as caught:
        publish([make_wheel(version="2.0")], index, promised=PROMISE)
    assert caught.value.where == "spark-kernels 2.0 for linux-x86_64"
    assert snapshot(index) == before


def test_a_build_of_one_platform_waits_for_the_other(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    done = publish([make_wheel()], index, promised=PROMISE, hold=True)
    assert done.held == (f"spark-kernels {LOCAL} for linux-x86_64",)
    assert not index.exists()
    both = publish([make_wheel(), make_wheel(tag=X86_64)], index, promised=PROMISE, hold=True)
    assert (both.held, len(both.added)) == ((), 2)


def test_a_promised_version_is_no_other_one(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index, promised = tmp_path / "index", frozenset({Promise("cache", "linux-aarch64", "2.0+b")})
    publish([make_wheel("cache", "1.0"), make_wheel("cache", "2.0+a")], index)
    with pytest.raises(PublishError, match="promises 1 wheel more") as caught:
        publish([make_wheel()], index, promised=promised)
    assert caught.value.where == "cache 2.0+b for linux-aarch64"
    publish([make_wheel("cache", "2.0+b")], index)
    assert len(publish([make_wheel()], index, promised=promised).added) == 1


def test_what_is_there_already_is_held_back_by_no_promise(tmp_path: Path, make_wheel: MakeWheel) -> None:
    publish([make_wheel()], tmp_path / "index")
    done = publish([make_wheel()], tmp_path / "index", promised=PROMISE)
    assert (done.unchanged, done.held) == ((make_wheel().wheel.path.name,), ())


def test_a_promised_project_that_never_came_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    with pytest.raises(PublishError, match="missing") as caught:
        publish([make_wheel()], tmp_path / "index", promised=frozenset({Promise("cache", "linux-aarch64")}))
    assert caught.value.where == "cache for linux-aarch64"
    assert not (tmp_path / "index").exists()


def test_a_promise_is_kept_by_what_is_there_and_by_pure_wheels(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    publish([make_wheel(version="1.0"), make_wheel("pure", "3", "py3-none-any")], index)
    promised = PROMISE | {Promise("pure", "linux-aarch64"), Promise("pure", "linux-x86_64")}
    done = publish([make_wheel(version="1.0", tag=X86_64)], index, promised=promised)
    assert len(done.added) == 1


@pytest.mark.parametrize(
    ("tag", "platform"),
    [
        ("py3-none-any", "any"),
        ("cp38-abi3-manylinux_2_34_aarch64", "linux-aarch64"),
        ("cp38-abi3-manylinux2014_x86_64", "linux-x86_64"),
        ("cp38-abi3-linux_aarch64", "linux-aarch64"),
        ("cp38-abi3-musllinux_1_2_aarch64", "linux-aarch64"),
        ("cp38-abi3-macosx_11_0_arm64", "macosx_11_0_arm64"),
    ],
)
def test_platforms_are_read_from_tags(tag: str, platform: str) -> None:
    assert IndexFile(f"x-1-{tag}.whl", "0" * 64, 1, "0" * 64, "").platforms == {platform}


def _rewritten(path: Path, change: str) -> None:
    if change == "no zip":
        path.write_bytes(b"not a zip")
    elif change == "cut short":
        path.write_bytes(path.read_bytes()[:-40])
    elif change == "no METADATA":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/__init__.py", b"")
    elif change == "two METADATA":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("other-1.dist-info/METADATA", b"Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    elif change == "no version":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x-1.dist-info/METADATA", b"Metadata-Version: 2.1\nName: x\n")
    elif change == "bad Requires-Python":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(
                "x-1.dist-info/METADATA", b"Metadata-Version: 2.1\nName: x\nVersion: 1\nRequires-Python: soon\n"
            )
    elif change == "bad CRC":
        data = bytearray(path.read_bytes())
        data[data.index(b"Metadata-Version")] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize(
    "change",
    ["no zip", "cut short", "no METADATA", "two METADATA", "no version", "bad Requires-Python", "bad CRC"],
)
def test_a_wheel_that_cannot_be_read_is_refused(tmp_path: Path, make_wheel: MakeWheel, change: str) -> None:
    path = make_wheel().wheel.path
    _rewritten(path, change)
    with pytest.raises(PublishError, match="not a readable wheel"):
        publish([make_wheel("fine"), verified(path)], tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_a_missing_wheel_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel = make_wheel()
    wheel.wheel.path.unlink()
    with pytest.raises(PublishError, match="not a readable wheel"):
        publish([wheel], tmp_path / "index")


def test_a_wheel_renamed_by_hand_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    path = make_wheel(version="0.20.0").wheel.path
    renamed = path.rename(path.with_name(f"spark_kernels-0.20.0+cu130-{AARCH64}.whl"))
    with pytest.raises(PublishError, match=r"describes itself as spark-kernels 0\.20\.0"):
        publish([verified(renamed)], tmp_path / "index")


def test_a_file_name_that_is_no_wheels_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel = make_wheel()
    renamed = wheel.wheel.path.rename(wheel.wheel.path.with_name("kernels.whl"))
    with pytest.raises(PublishError, match="not a readable wheel"):
        publish([replace(wheel, wheel=replace(wheel.wheel, path=renamed))], tmp_path / "index")


def test_a_wheel_changed_after_its_verdict_is_refused(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel = make_wheel()
    with zipfile.ZipFile(wheel.wheel.path, "a") as archive:
        archive.writestr("late.py", b"")
    with pytest.raises(PublishError, match="changed after it was verified"):
        publish([wheel], tmp_path / "index")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("damage", [b"", b"<html>", b"[]", b'{"meta": {}, "files": [{}]}'])
def test_a_damaged_page_is_said_and_left(tmp_path: Path, make_wheel: MakeWheel, damage: bytes) -> None:
    index = tmp_path / "index"
    publish([make_wheel(version="1.0")], index)
    (index / PAGE).write_bytes(damage)
    before = snapshot(index)
    with pytest.raises(PublishError, match="cannot be read") as caught:
        publish([make_wheel(version="2.0")], index)
    assert caught.value.where == PAGE
    assert snapshot(index) == before


def test_a_lost_file_or_page_is_put_back(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index, wheel = tmp_path / "index", make_wheel()
    publish([wheel], index, now=NOON)
    before = {key: data for key, (data, _) in snapshot(index).items()}
    for path in [*index.rglob("*.whl"), *index.rglob("*.metadata"), *index.rglob("*.html")]:
        path.unlink()
    publish([wheel], index, now=NOON + timedelta(days=1))
    assert {key: data for key, (data, _) in snapshot(index).items()} == before


def test_a_server_of_another_user_can_read_it_whatever_our_umask(tmp_path: Path, make_wheel: MakeWheel) -> None:
    wheel, before = make_wheel(), os.umask(0o077)
    try:
        publish([wheel], tmp_path / "srv/index")
    finally:
        os.umask(before)
    seen = [path for path in (tmp_path / "srv/index").rglob("*") if not path.name.startswith(".")]
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in [tmp_path / "srv/index", *seen]}
    assert len(seen) == 6 + 5
    assert all(path.stat().st_mode & 0o777 == modes[path.is_dir()] for path in seen)
    assert modes == {True: 0o755, False: 0o644}


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, make_wheel: MakeWheel) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="cannot write"):
        publish([make_wheel()], tmp_path / "file" / "index")
