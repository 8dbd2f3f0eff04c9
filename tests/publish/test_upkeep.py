"""Yank, roll back and collect: what goes off offer, what stays for locks, what is never reused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builder.errors import PublishError, UsageError
from builder.publish import (
    Locks,
    add_locks,
    gc,
    list_locks,
    publish,
    refresh,
    remove_locks,
    rollback,
    unyank,
    yank,
)
from builder.publish.index import read_project
from builder.publish.shelf import FolderShelf, Kept
from tests.publish.clients import TOOLS, Client, installed_version, installer
from tests.publish.conftest import MakeWheel, Serve
from tests.publish.reader import links_of, listed, listed_json, snapshot
from tests.publish.wheels import AARCH64, X86_64

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def name_of(version: str, tag: str = AARCH64, project: str = "spark_kernels") -> str:
    return f"{project}-{version}-{tag}.whl"


@pytest.fixture
def index(tmp_path: Path, make_wheel: MakeWheel) -> Path:
    """Four versions, a day apart; the last came together with another project."""
    for day, version in enumerate(("1.0", "2.0", "3.0")):
        publish([make_wheel(version=version)], tmp_path / "index", now=START + day * DAY)
    publish([make_wheel(version="4.0"), make_wheel("cache", "4.0")], tmp_path / "index", now=START + 3 * DAY)
    return tmp_path / "index"


def on_offer(index: Path) -> set[str]:
    return {
        file.filename
        for project in ("spark-kernels", "cache")
        for file in read_project(FolderShelf(index), project).files
        if file.yanked is None
    }


def test_yank_is_said_on_both_pages_and_can_be_undone(index: Path) -> None:
    before = {name: data for name, (data, _) in snapshot(index).items()}
    changed = yank(index, [name_of("3.0")], 'wrong <answers> & "noise"')
    assert changed.pages == ("simple/spark-kernels/index.json", "simple/spark-kernels/index.html")
    html = (index / "simple/spark-kernels/index.html").read_bytes()
    marks = {text: attributes.get("data-yanked") for _, attributes, text in links_of(html)}
    assert marks[name_of("3.0")] == 'wrong <answers> & "noise"'
    assert marks[name_of("2.0")] is None
    assert b"<answers>" not in html
    unyank(index, [name_of("3.0")])
    after = {name: data for name, (data, _) in snapshot(index).items()}
    assert {name for name in before if before[name] != after[name]} == set(changed.pages)  # the serial went on
    assert on_offer(index) == {*map(name_of, ("1.0", "2.0", "3.0", "4.0")), name_of("4.0", project="cache")}


@pytest.mark.parametrize("reason", ["", "broken"])
def test_yank_is_true_or_a_reason_in_json(index: Path, reason: str) -> None:
    yank(index, [name_of("1.0")], reason)
    page = json.loads((index / "simple/spark-kernels/index.json").read_bytes())
    assert {file["filename"]: file.get("yanked", False) for file in page["files"]}[name_of("1.0")] == (reason or True)
    assert {file.filename: file.yanked for file in read_project(FolderShelf(index), "spark-kernels").files}[
        name_of("1.0")
    ] == reason


def test_yanking_a_stranger_is_refused(index: Path) -> None:
    before = snapshot(index)
    with pytest.raises(PublishError, match=r"the index has no spark_kernels-9\.0"):
        yank(index, [name_of("1.0"), name_of("9.0")])
    assert snapshot(index) == before


def test_rollback_undoes_the_newest_publish_of_all_projects(index: Path) -> None:
    assert rollback(index).files == (name_of("4.0", project="cache"), name_of("4.0"))
    assert on_offer(index) == set(map(name_of, ("1.0", "2.0", "3.0")))
    assert rollback(index).files == (name_of("3.0"),)
    assert set(listed(index)) == set(listed_json(index))
    assert len(listed(index)) == 5


def test_rollback_to_an_instant(index: Path) -> None:
    rollback(index, to=START + timedelta(hours=1), reason="trapped on GB10")
    assert on_offer(index) == {name_of("1.0")}
    with pytest.raises(PublishError, match="nothing to roll back"):
        rollback(index, to=START + timedelta(hours=1))


def test_publishing_what_was_rolled_back_does_not_sneak_it_in(index: Path, make_wheel: MakeWheel) -> None:
    rollback(index)
    before = snapshot(index)
    done = publish([make_wheel(version="4.0")], index)
    assert done.withdrawn == done.unchanged == (name_of("4.0"),)
    assert snapshot(index) == before


def test_gc_keeps_the_newest_releases_and_the_bytes_for_a_while(index: Path) -> None:
    now = START + 10 * DAY
    done = gc(index, keep=2, now=now)
    assert done.retired == (name_of("1.0"), name_of("2.0"))
    assert done.deleted == ()
    assert set(listed(index)) == {name_of("3.0"), name_of("4.0"), name_of("4.0", project="cache")}
    later = gc(index, keep=2, now=datetime.now(UTC) + 2 * DAY)
    assert sorted(Path(key).name for key in later.deleted) == sorted(
        name + end for name in (name_of("1.0"), name_of("2.0")) for end in ("", ".metadata")
    )
    assert later.freed > 0
    assert len(list(index.rglob("*.whl"))) == 3
    assert set(listed(index)) == set(listed_json(index))
    assert not [path for path in (index / "files").glob("*/*") if not list(path.iterdir())]


def test_gc_never_takes_what_a_lock_names(index: Path, tmp_path: Path) -> None:
    digest = listed(index)[name_of("1.0")]
    lock = tmp_path / "pylock.toml"
    lock.write_text(f'[[packages]]\nwheels = [{{ hashes = {{ sha256 = "{digest}" }} }}]\n')
    assert gc(index, keep=1, locks=[lock]).retired == (name_of("2.0"), name_of("3.0"))
    gc(index, keep=1, locks=[lock], now=datetime.now(UTC) + 9 * DAY)
    assert set(listed(index)) == {name_of("1.0"), name_of("4.0"), name_of("4.0", project="cache")}


@pytest.mark.parametrize("name", ["", "team-a"])
def test_a_lock_that_the_index_keeps_needs_no_naming(index: Path, tmp_path: Path, name: str) -> None:
    lock, newer = tmp_path / "uv.lock", tmp_path / "newer/uv.lock"
    newer.parent.mkdir()
    login = "--index-url https://user:secret@host.invalid/simple\n"
    lock.write_text(f"{login}a==1 --hash=sha256:{listed(index)[name_of('1.0')]} --hash=sha256:{'0' * 64}\n")
    newer.write_text(f"a==2 --hash=sha256:{listed(index)[name_of('2.0')]}\n")
    assert add_locks(index, [lock], name) == Locks((name or "uv.lock",), (name_of("1.0"),))
    add_locks(index, [newer], name)
    assert list_locks(index) == Locks((name or "uv.lock",), (name_of("1.0"), name_of("2.0")))
    assert "".join(path.read_text() for path in (index / "locks").rglob("*") if path.is_file()).count("\n") == 2
    assert gc(index, keep=1).retired == (name_of("3.0"),)
    assert gc(index, keep=1, now=datetime.now(UTC) + 9 * DAY).retired == ()
    remove_locks(index, [name or "uv.lock"])
    assert list_locks(index) == Locks((), ())
    assert gc(index, keep=1).retired == (name_of("1.0"), name_of("2.0"))


def test_a_lock_that_comes_while_gc_works_is_respected(index: Path, tmp_path: Path) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text(listed(index)[name_of("1.0")])
    shelf = Meddled(index, {"simple/cache/index.json": lambda: add_locks(index, [lock])})
    assert gc(shelf, keep=1).retired == (name_of("2.0"), name_of("3.0"))


class Late(FolderShelf):
    """A folder in which somebody adds a lock just after gc has looked for locks, and before it writes the page."""

    __slots__ = ()

    def write(self, key: str, data: bytes, *, over: Kept | None) -> bool:
        if key == "simple/spark-kernels/index.json" and not (self.root / "locks").exists():
            add_locks(self.root, [self.root.parent / "uv.lock"])
        return FolderShelf.write(self, key, data, over=over)


def test_a_lock_that_comes_while_the_page_is_written_is_respected(index: Path, tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(listed(index)[name_of("1.0")])
    before = read_project(FolderShelf(index), "spark-kernels").files
    assert gc(Late(index), keep=1).retired == (name_of("2.0"), name_of("3.0"))
    project = read_project(FolderShelf(index), "spark-kernels")
    assert project.files == tuple(file for file in before if file.version.major in {1, 4})
    assert [entry.filename for entry in project.retired] == [name_of("2.0"), name_of("3.0")]
    assert set(listed(index)) == set(listed_json(index))
    assert list_locks(index) == Locks(("uv.lock",), (name_of("1.0"),))


def test_a_lock_that_names_what_gc_has_removed_says_so(index: Path, tmp_path: Path, make_wheel: MakeWheel) -> None:
    lock, old = tmp_path / "uv.lock", tmp_path / "old.lock"
    lock.write_text(f"{listed(index)[name_of('1.0')]}\n{listed(index)[name_of('4.0')]}\n")
    old.write_text(listed(index)[name_of("1.0")])
    gc(index, keep=1)
    told = add_locks(index, [lock])
    assert told == list_locks(index) == Locks(("uv.lock",), (name_of("4.0"),), (name_of("1.0"),))
    with pytest.raises(PublishError, match="names no file of this index"):
        add_locks(index, [old])
    publish([make_wheel(version="1.0")], index)
    assert list_locks(index) == Locks(("uv.lock",), (name_of("1.0"), name_of("4.0")))
    assert name_of("1.0") not in gc(index, keep=1).retired, "it came back, and is kept"


def test_gc_leaves_what_a_rollback_took_back(index: Path, make_wheel: MakeWheel) -> None:
    """Nobody registered a lock in the hours between: who pinned the newest can install it, and it can be offered."""
    newest = rollback(index).files
    assert gc(index, keep=1).retired == (name_of("1.0"), name_of("2.0"))
    assert unyank(index, newest).files == newest
    rollback(index)
    publish([make_wheel(version="5.0"), make_wheel("cache", "5.0")], index)
    assert gc(index, keep=1).retired == (name_of("4.0", project="cache"), name_of("3.0"), name_of("4.0"))


def test_gc_leaves_a_project_of_which_all_is_yanked_until_newer_comes(index: Path, make_wheel: MakeWheel) -> None:
    rollback(index, to=START - DAY)
    assert gc(index, keep=2).retired == ()
    for n, retired in ((5, ()), (6, tuple(map(name_of, ("1.0", "2.0", "3.0", "4.0"))))):
        publish([make_wheel(version=f"{n}.0")], index, now=START + n * DAY)
        assert gc(index, keep=2).retired == retired


def test_gc_leaves_a_rolled_back_release_until_enough_newer_are_on_offer(tmp_path: Path, make_wheel: MakeWheel) -> None:
    """It has the smallest version there is, and a yanked one after it counts for nothing."""
    index = tmp_path / "index"
    publish([make_wheel(version="1.0+a.pffffffff")], index, now=START)
    publish([make_wheel(version="1.0+a.p00000000")], index, now=START + DAY)
    rollback(index)
    publish([make_wheel(version="1.0+a.p11111111")], index, now=START + 2 * DAY)
    yank(index, [name_of("1.0+a.p11111111")])
    publish([make_wheel(version="1.0+a.p22222222")], index, now=START + 3 * DAY)
    assert gc(index, keep=2).retired == ()
    publish([make_wheel(version="1.0+a.p33333333")], index, now=START + 4 * DAY)
    assert gc(index, keep=2).retired == tuple(map(name_of, ("1.0+a.p00000000", "1.0+a.p11111111", "1.0+a.pffffffff")))


VLLM_A, VLLM_B, VLLM_C = (f"0.20.0+aeon7.1.p{digest}" for digest in ("8f707f79", "2b000000", "1c000000"))
KERNELS_A, KERNELS_B = (f"0.6.8+aeon7.1.p{digest}" for digest in ("1380a8fd", "9c000000"))


@pytest.fixture
def siblings(tmp_path: Path, make_wheel: MakeWheel) -> Path:
    """Two releases in which patches changed and the revision did not: the digests order them the other way round."""
    for day, (vllm, kernels) in enumerate(((VLLM_A, KERNELS_A), (VLLM_B, KERNELS_B))):
        wheels = [make_wheel("vllm", vllm, requires=[f"spark-kernels=={kernels}"]), make_wheel(version=kernels)]
        publish(wheels, tmp_path / "index", now=START + day * DAY)
    return tmp_path / "index"


def pair(vllm: str, kernels: str) -> set[str]:
    return {name_of(vllm, project="vllm"), name_of(kernels)}


def test_gc_keeps_the_release_that_came_last_whole(siblings: Path) -> None:
    assert set(gc(siblings, keep=1).retired) == pair(VLLM_A, KERNELS_A)
    assert set(listed(siblings)) == set(listed_json(siblings)) == pair(VLLM_B, KERNELS_B)


def test_gc_keeps_the_two_releases_that_came_last_whole(siblings: Path, make_wheel: MakeWheel) -> None:
    before = set(listed(siblings))
    assert gc(siblings, keep=2).retired == ()
    assert set(listed(siblings)) == before == pair(VLLM_A, KERNELS_A) | pair(VLLM_B, KERNELS_B)
    wheels = [make_wheel("vllm", VLLM_C, requires=["spark-kernels==0.6.8+c"]), make_wheel(version="0.6.8+c")]
    publish(wheels, siblings, now=START + 2 * DAY)
    assert set(gc(siblings, keep=2).retired) == pair(VLLM_A, KERNELS_A)


@pytest.mark.parametrize("pin", [f"spark-kernels=={KERNELS_A}", f'spark-kernels=={KERNELS_A}; extra == "fast"'])
def test_gc_keeps_what_a_wheel_that_stays_pins(siblings: Path, make_wheel: MakeWheel, pin: str) -> None:
    """A patch of the kernels was taken out again: the new vLLM came with kernels that are not the newest."""
    again = [make_wheel("vllm", VLLM_C, requires=[pin, "torch==2.11.0"]), make_wheel(version=KERNELS_A)]
    assert publish(again, siblings, now=START + 2 * DAY).unchanged == (name_of(KERNELS_A),)
    assert set(gc(siblings, keep=1).retired) == {name_of(version, project="vllm") for version in (VLLM_A, VLLM_B)}
    assert set(listed(siblings)) == pair(VLLM_C, KERNELS_A) | {name_of(KERNELS_B)}


def test_gc_keeps_no_more_than_one_version_for_a_pin_that_many_fit(siblings: Path, make_wheel: MakeWheel) -> None:
    publish([make_wheel("vllm", VLLM_C, requires=["spark-kernels==0.6.8"])], siblings, now=START + 2 * DAY)
    gc(siblings, keep=1)
    assert set(listed(siblings)) == pair(VLLM_C, KERNELS_B)


def test_gc_keeps_what_is_pinned_by_what_a_lock_names(siblings: Path, tmp_path: Path) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text(listed(siblings)[name_of(VLLM_A, project="vllm")])
    assert gc(siblings, keep=1, locks=[lock]).retired == ()


def test_gc_keeps_a_version_whole_whose_platforms_came_one_by_one(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index = tmp_path / "index"
    for day, (version, tag) in enumerate((("1.0", AARCH64), ("2.0", AARCH64), ("2.0", X86_64))):
        publish([make_wheel(version=version, tag=tag)], index, now=START + day * DAY)
    assert gc(index, keep=1).retired == (name_of("1.0"),)


def test_rollback_takes_back_what_came_last_though_a_clock_was_ahead(tmp_path: Path, make_wheel: MakeWheel) -> None:
    index, ahead = tmp_path / "index", START + 400 * DAY
    publish([make_wheel(version="1.0")], index, now=ahead)
    for version in ("2.0", "3.0"):
        publish([make_wheel(version=version), make_wheel("cache", version)], index, now=START)
    times = [file.upload_time for file in read_project(FolderShelf(index), "spark-kernels").files]
    assert times == sorted(set(times))
    assert rollback(index).files == (name_of("3.0", project="cache"), name_of("3.0"))
    assert rollback(index, to=ahead).files == (name_of("2.0", project="cache"), name_of("2.0"))


def test_a_lock_of_nothing_here_is_not_kept(index: Path, tmp_path: Path) -> None:
    good, lock = tmp_path / "good.lock", tmp_path / "uv.lock"
    good.write_text(listed(index)[name_of("1.0")])
    lock.write_text("0" * 64)
    with pytest.raises(PublishError, match="names no file of this index"):
        add_locks(index, [good, lock])
    with pytest.raises(UsageError, match="no name for a lock"):
        add_locks(index, [good], "../simple")
    with pytest.raises(PublishError, match=r"keeps no lock uv\.lock"):
        remove_locks(index, ["uv.lock"])
    assert list_locks(index) == Locks((), ())


def test_gc_after_a_rollback_keeps_what_is_on_offer(index: Path) -> None:
    rollback(index)
    assert name_of("3.0") not in gc(index, keep=1).retired
    assert on_offer(index) == {name_of("3.0")}


@dataclass(frozen=True, slots=True)
class Meddled(FolderShelf):
    """A folder in which somebody else acts just after a page was read for the first time."""

    meddle: dict[str, Callable[[], object]]

    def read(self, key: str) -> Kept | None:
        kept, act = FolderShelf.read(self, key), self.meddle.pop(key, None)
        if act is not None:
            act()
        return kept


def test_gc_judges_the_newest_state_of_a_page(index: Path) -> None:
    yank(index, [name_of("4.0")])
    shelf = Meddled(index, {"simple/spark-kernels/index.json": lambda: unyank(index, [name_of("4.0")])})
    assert gc(shelf, keep=1).retired == (name_of("1.0"), name_of("2.0"), name_of("3.0"))
    assert on_offer(index) == {name_of("4.0"), name_of("4.0", project="cache")}


@pytest.mark.parametrize("text", ["spark-kernels==1.0\n", None, b"\xff\xfe"])
def test_gc_refuses_a_lock_that_protects_nothing(index: Path, tmp_path: Path, text: str | bytes | None) -> None:
    lock, before = tmp_path / "requirements.txt", snapshot(index)
    if text is not None:
        lock.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(PublishError, match="cannot be used"):
        gc(index, keep=1, locks=[lock])
    assert snapshot(index) == before


def test_gc_refuses_to_empty_the_index(index: Path) -> None:
    with pytest.raises(UsageError):
        gc(index, keep=0)


def test_a_retired_name_stays_bound_to_its_bytes(index: Path, make_wheel: MakeWheel) -> None:
    gc(index, keep=1)
    gc(index, keep=1, now=datetime.now(UTC) + 9 * DAY)
    with pytest.raises(PublishError, match="taken by other bytes"):
        publish([make_wheel(version="1.0", payload=b"other")], index)
    assert publish([make_wheel(version="1.0")], index).added == (name_of("1.0"),)
    assert set(listed(index)) == set(listed_json(index))
    assert read_project(FolderShelf(index), "spark-kernels").retired[0].filename == name_of("2.0")


def test_gc_removes_leftovers_of_killed_publishers_when_they_are_old(index: Path) -> None:
    leftovers = [
        index / "files/aa" / ("a" * 64) / "orphan-1-py3-none-any.whl",
        index / "files/aa" / ("a" * 64) / ".part-x",
        index / "simple/cache/.index.json.x",
    ]
    for path in leftovers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")
    assert gc(index, keep=9).deleted == ()
    assert len(gc(index, keep=9, now=datetime.now(UTC) + 2 * DAY).deleted) == 3
    assert not any(path.exists() for path in leftovers)
    assert len(listed(index)) == 5


def test_gc_leaves_a_file_that_was_written_since_it_was_listed(index: Path) -> None:
    shelf = FolderShelf(index)
    (item, *_) = [item for item in shelf.items("files") if item.key.endswith(".whl")]
    (index / item.key).write_bytes((index / item.key).read_bytes())
    assert not shelf.delete(item)
    assert (index / item.key).exists()


def test_refresh_mends_derived_pages_only(index: Path) -> None:
    before = {name: data for name, (data, _) in snapshot(index).items()}
    (index / "simple/index.html").unlink()
    (index / "simple/index.json").unlink()
    (index / "simple/cache/index.html").write_bytes(b"old template")
    done = refresh(index)
    assert done.pages == ("simple/cache/index.html", "simple/index.json", "simple/index.html")
    assert {name: data for name, (data, _) in snapshot(index).items()} == before
    assert refresh(index).pages == ()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_lock_outlives_ten_publishes_a_rollback_and_gc(
    tmp_path: Path, make_wheel: MakeWheel, serve: Serve, client: Client, environment: Path, tool: str
) -> None:
    index, lock = tmp_path / "index", tmp_path / "lock.txt"
    publish([make_wheel(version="1.0", tag=X86_64), make_wheel(version="1.0")], index, now=START)
    publish([make_wheel(version="1.1", tag=X86_64)], index, now=START + DAY)
    url, _ = serve(index)
    options = ("--index-url", f"{url}/simple")
    digest = listed(index)[name_of("1.1", X86_64)]
    lock.write_text(f"spark-kernels==1.1 --hash=sha256:{digest}\n")
    for n in range(10):
        publish([make_wheel(version=f"2.{n}", tag=X86_64)], index, now=START + (2 + n) * DAY)
    rollback(index, to=START)
    gc(index, keep=1, locks=[lock])
    gc(index, keep=1, locks=[lock], now=datetime.now(UTC) + 9 * DAY)
    client(*installer(tool, environment), *options, "--require-hashes", "-r", "lock.txt")
    assert installed_version(client, environment) == "1.1"
    client(*installer(tool, environment), *options, "--force-reinstall", "spark-kernels")
    assert installed_version(client, environment) == "1.0"
