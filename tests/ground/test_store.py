"""A thing in the store is absent or whole: with several builders, killed ones, and full disks."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.errors import DigestError, StoreError
from builder.store import Store, atomic_write, disk_error, key_of, sha256_of
from tests.ground.conftest import CALM

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _parts(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.rglob(".*"))


@contextmanager
def _python(code: str, *args: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Another builder: a Python process that says what it does on stdout."""
    command = [sys.executable, "-c", f"import sys\nfrom pathlib import Path\n{code}", *map(str, args)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def _files_of_at_most(count: int) -> Iterator[None]:
    """Every file of this process ends at `count` bytes, as on a disk that has no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_atomic_write_makes_folders_modes_and_bytes(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c.json"
    atomic_write(place, b"one")
    atomic_write(place, b"two", mode=0o600)
    assert place.read_bytes() == b"two"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert _names(place.parent) == ["c.json"]


def test_atomic_write_that_fails_leaves_the_old_bytes_and_no_rest(tmp_path: Path) -> None:
    place = tmp_path / "record.json"
    atomic_write(place, b"old")
    with _files_of_at_most(1000), pytest.raises(StoreError, match="grew over what is allowed") as told:
        atomic_write(place, b"x" * 5000)
    assert str(place) in str(told.value)
    assert "ulimit -f" in told.value.remedy
    assert place.read_bytes() == b"old"
    assert _names(tmp_path) == ["record.json"]


def test_readers_see_the_old_bytes_or_the_new_ones(tmp_path: Path) -> None:
    place = tmp_path / "page"
    atomic_write(place, b"0" * 100_000)
    code = """
from builder.store import atomic_write
print("on", flush=True)
while True:
    for digit in b"123456789":
        atomic_write(Path(sys.argv[1]), bytes([digit]) * 100_000)
"""
    with _python(code, place) as writer:
        _said(writer)
        seen = {place.read_bytes() for _ in range(300)}
    assert {(len(data), len(set(data))) for data in seen} == {(100_000, 1)}


def test_put_keeps_bytes_under_their_digest(store: Store) -> None:
    path = store.put([b"one ", b"two"])
    digest = hashlib.sha256(b"one two").hexdigest()
    assert path == store.root / "blobs" / digest == store.blob(digest)
    assert sha256_of(path) == digest
    assert store.blob("0" * 64) is None
    assert store.put([b"one two"], digest) == path


def test_put_refuses_other_bytes_and_keeps_none_of_them(store: Store) -> None:
    with pytest.raises(DigestError) as told:
        store.put([b"evil"], "a" * 64, "torch.whl")
    assert "torch.whl is not the pinned one" in str(told.value)
    assert f"sha256 {'a' * 64}, got {hashlib.sha256(b'evil').hexdigest()}" in told.value.expected
    assert _names(store.root / "blobs") == []


def test_a_put_whose_source_fails_keeps_nothing(store: Store) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        store.put(chunks())
    assert _names(store.root / "blobs") == []


def test_what_is_to_last_is_on_the_disk_before_it_has_its_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda _: there.append([p.name for p in (store.root / "blobs").iterdir()]))
    store.put([b"soon gone"])
    assert there == []
    path = store.put([b"fetched"], lasting=True)
    assert len(there) == 1
    assert path.name not in there[0]


def test_a_tree_that_is_to_last_is_on_the_disk_before_it_has_its_name(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[list[str]] = []
    monkeypatch.setattr(os, "sync", lambda: there.append([p.name for p in (store.root / "trees").iterdir()]))
    store.tree("soon-gone", lambda folder: (folder / "nvcc").touch())
    assert there == []
    path = store.tree("compiler", lambda folder: (folder / "nvcc").touch(), lasting=True)
    assert len(there) == 1
    assert path.name not in there[0]
    assert (path / "nvcc").is_file()


def test_put_file_copies(store: Store, tmp_path: Path) -> None:
    (tmp_path / "wheel").write_bytes(b"w" * 3_000_000)
    kept = store.put_file(tmp_path / "wheel")
    (tmp_path / "wheel").write_bytes(b"changed")
    assert kept.stat().st_size == 3_000_000


def test_a_file_that_may_not_grow_is_a_store_error(store: Store) -> None:
    with _files_of_at_most(100_000), pytest.raises(StoreError, match="grew over"):
        store.put([b"x" * 60_000] * 4)
    assert _names(store.root / "blobs") == []


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount a small disk here")
    try:
        store = Store(disk / "store")
        with pytest.raises(StoreError, match="the disk is full") as told:
            store.put([b"x" * 100_000] * 5)
        assert "free some space" in told.value.remedy
        with pytest.raises(StoreError, match="the disk is full"):
            store.tree("key", lambda folder: atomic_write(folder / "big", b"x" * 500_000))
        with pytest.raises(StoreError, match="the disk is full"):
            store.keep_record("build", "key", {"text": "x" * 500_000})
        assert _parts(store) == []
        store.put([b"x" * 100_000])
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.ENOLCK, errno.EOPNOTSUPP],
)
def test_each_disk_error_has_a_place_and_a_next_step(number: int) -> None:
    told = disk_error(OSError(number, os.strerror(number), "/some/file"), "")
    assert told is not None
    assert told.where == "/some/file"
    assert told.remedy


def test_a_disk_without_locks_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As some network disks are."""

    def flock(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("builder.store.fcntl.flock", flock)
    with pytest.raises(StoreError, match="lacks what is needed") as told:
        store.put([b"x"])
    assert "store=PATH" in told.value.remedy
    assert disk_error(OSError(errno.EOPNOTSUPP, "no such socket"), "") is None


def test_other_system_errors_are_not_called_disk_errors(store: Store) -> None:
    assert disk_error(FileNotFoundError(errno.ENOENT, "none"), "x") is None

    def make(folder: Path) -> None:
        (folder / "absent").read_bytes()

    with pytest.raises(FileNotFoundError):
        store.tree("key", make)


def test_a_folder_that_may_not_be_written_is_said() -> None:
    with pytest.raises(StoreError, match="cannot write") as told:
        atomic_write(Path("/sys/kernel/spark-wheels/record"), b"x")
    assert "store=PATH" in told.value.remedy


def test_a_tree_is_made_once(store: Store) -> None:
    made = []

    def make(folder: Path) -> None:
        assert _names(folder) == []
        made.append(folder)
        (folder / "file").write_text("whole")

    first = store.tree("key", make)
    assert store.tree("key", make) == first
    assert len(made) == 1
    assert (first / "file").read_text() == "whole"
    assert _parts(store) == []


def test_a_maker_that_fails_leaves_nothing(store: Store) -> None:
    def make(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        store.tree("key", make)
    assert not (store.root / "trees" / "key").exists()
    assert _parts(store) == []


MAKER = """
import time
from builder.store import Store
def make(folder):
    print("making", flush=True)
    with (folder / "log").open("a") as log:
        for step in range(5):
            time.sleep(float(sys.argv[2]))
            log.write(f"{step}\\n")
            log.flush()
print((Store(Path(sys.argv[1])).tree("key", make) / "log").read_text().split(), flush=True)
"""


def test_two_processes_make_a_tree_once_and_both_get_the_whole(store: Store) -> None:
    with _python(MAKER, store.root, "0.1") as one, _python(MAKER, store.root, "0.1") as two:
        said = (one.communicate()[0] + two.communicate()[0]).splitlines()
    whole = "['0', '1', '2', '3', '4']"
    assert sorted(said) == [whole, whole, "making"]


def test_a_killed_maker_leaves_no_tree_and_the_next_makes_it(store: Store) -> None:
    with _python(MAKER, store.root, "60") as maker:
        assert _said(maker) == "making"
        assert not (store.root / "trees" / "key").exists()
        assert store.sweep(older_than=0) == 0, "its maker lives"
        maker.send_signal(signal.SIGKILL)
        maker.wait()
    with _python(MAKER, store.root, "0") as second:
        assert _said(second) == "making"
        assert _said(second) == "['0', '1', '2', '3', '4']"
    assert store.sweep(older_than=3600) == 0
    assert store.sweep(older_than=0) == 1
    assert _parts(store) == []


def test_a_killed_put_is_swept(store: Store) -> None:
    code = """
import time
from builder.store import Store
def chunks():
    yield b"half"
    print("half", flush=True)
    time.sleep(60)
Store(Path(sys.argv[1])).put(chunks())
"""
    with _python(code, store.root) as process:
        assert _said(process) == "half"
        assert store.sweep(older_than=0) == 0
    process.wait()
    assert store.sweep(older_than=0) == 1
    assert _names(store.root / "blobs") == []


def test_scratch_is_empty_and_gone_afterwards(store: Store) -> None:
    seen: list[Path] = []

    def use() -> None:
        with store.scratch() as folder:
            assert _names(folder) == []
            (folder / "file").write_text("x")
            seen.append(folder)
            raise KeyError(folder)

    with pytest.raises(KeyError):
        use()
    assert not seen[0].exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'"text"', b'{"a": 1'])
def test_a_damaged_record_counts_as_absent(store: Store, damage: bytes) -> None:
    store.keep_record("build", "key", {"a": [1, "é"]})
    assert store.record("build", "key") == {"a": [1, "é"]}
    (store.root / "records" / "build" / "key.json").write_bytes(damage)
    assert store.record("build", "key") is None
    assert store.record("build", "other") is None


def test_a_lock_shuts_others_out_and_falls_with_its_process(store: Store) -> None:
    code = """
import time
from builder.store import Store
with Store(Path(sys.argv[1])).lock("gpu"):
    print("held", flush=True)
    time.sleep(60)
"""
    with _python(code, store.root) as holder:
        assert _said(holder) == "held"
        with pytest.raises(StoreError, match="another build holds gpu") as told, store.lock("gpu", timeout=0.1):
            pytest.fail("two holders")
        assert "wait for it" in told.value.remedy
        with store.lock("other", timeout=0.1):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    start = time.monotonic()
    with store.lock("gpu", timeout=5):
        assert time.monotonic() - start < 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@CALM
@given(JSON)
def test_equal_values_have_equal_keys(value: object) -> None:
    import json

    with suppress(ValueError):
        assert key_of(json.loads(json.dumps(value))) == key_of(value)


@CALM
@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_keys_ignore_the_order_of_a_dictionary(value: dict[str, int]) -> None:
    assert key_of(dict(reversed(value.items()))) == key_of(value)
    assert key_of({**value, next(iter(value)): -1.5}) != key_of(value)
