import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builder.compile.kept import keep_wheel, kept_wheel
from builder.model import Wheel
from builder.store import Store


def made(folder: Path) -> Wheel:
    folder.mkdir()
    path = folder / "some-1.0-py3-none-any.whl"
    path.write_bytes(b"wheel")
    return Wheel(path, hashlib.sha256(b"wheel").hexdigest(), 5, "some", "1.0", "py3-none-any")


def test_a_kept_wheel_is_found_by_its_key_under_its_own_name(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    kept = keep_wheel(store, "key", made(tmp_path / "scratch"))
    assert kept.path.name == "some-1.0-py3-none-any.whl"
    assert kept.path.read_bytes() == b"wheel"
    assert kept_wheel(store, "key") == kept
    assert kept_wheel(store, "other") is None
    store.root.rename(tmp_path / "moved")
    moved = kept_wheel(Store(tmp_path / "moved"), "key")
    assert moved is not None
    assert moved.path.read_bytes() == b"wheel"


def test_one_whose_bytes_are_gone_or_whose_record_is_strange_counts_as_absent(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    kept = keep_wheel(store, "key", made(tmp_path / "scratch"))
    kept.path.unlink()
    assert kept_wheel(store, "key") is None
    store.keep_record("wheel", "strange", {"path": 7})
    assert kept_wheel(store, "strange") is None


@pytest.mark.parametrize("left", [b"", b"whee", b"wheeX"])
def test_one_that_a_power_cut_left_damaged_is_made_again(tmp_path: Path, left: bytes) -> None:
    store, wheel = Store(tmp_path / "store"), made(tmp_path / "scratch")
    kept = keep_wheel(store, "key", wheel)
    kept.path.write_bytes(left)
    assert kept_wheel(store, "key") is None
    keep_wheel(store, "key", wheel)
    assert kept_wheel(store, "key") == kept


def test_a_blob_that_is_put_again_while_it_is_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel tells of one that is renamed over at that moment as of one that is not there."""
    store, link, failed = Store(tmp_path / "store"), Path.hardlink_to, list[str]()

    def once_gone(self: Path, target: Path) -> None:
        if not failed:
            failed.append(str(target))
            raise FileNotFoundError(target)
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", once_gone)
    assert keep_wheel(store, "key", made(tmp_path / "scratch")) == kept_wheel(store, "key")
    assert failed


def test_two_builds_that_keep_the_same_wheel_at_once(tmp_path: Path) -> None:
    store, wheel = Store(tmp_path / "store"), made(tmp_path / "scratch")
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda _: keep_wheel(store, "key", wheel), range(40)))
    assert kept_wheel(store, "key") == kept[0]
    assert [path.name for path in kept[0].path.parent.iterdir()] == [kept[0].path.name]
