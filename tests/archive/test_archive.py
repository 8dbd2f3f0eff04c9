"""Hostile and damaged archives, made byte by byte, and good ones."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from builder import archive
from builder.archive import unpack_sdist, unpack_wheel
from builder.errors import ArchiveError

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data)
    return info, data


def sdist(path: Path, *members: Member) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return path


def wheel(path: Path, *members: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            made.writestr(info, data)
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "deep" / "into"
    folder.mkdir(parents=True)
    return folder


def test_a_good_sdist_keeps_bytes_modes_and_inner_links(tmp_path: Path, into: Path) -> None:
    path = sdist(
        tmp_path / "good-1.tar.gz",
        member("p-1", kind=tarfile.DIRTYPE, mode=0o755),
        member("p-1/run.sh", b"#!/bin/sh\n", mode=0o775),
        member("p-1/src/a.py", b"a = 1\n", mode=0o664),
        member("p-1/src/up", kind=tarfile.SYMTYPE, link="../run.sh"),
        member("p-1/same.py", kind=tarfile.LNKTYPE, link="p-1/src/a.py"),
    )
    unpack_sdist(path, into)
    assert (into / "p-1/src/a.py").read_bytes() == (into / "p-1/same.py").read_bytes() == b"a = 1\n"
    assert (into / "p-1/src/up").read_text() == "#!/bin/sh\n"
    assert (into / "p-1/run.sh").stat().st_mode & 0o100
    assert not (into / "p-1/src/a.py").stat().st_mode & 0o111


HOSTILE: dict[str, tuple[list[Member], str]] = {
    "absolute path": ([member("/evil", b"x")], "absolute path"),
    "climbs": ([member("p/../../evil", b"x")], "climbs out"),
    "absolute link": ([member("p/l", kind=tarfile.SYMTYPE, link="/etc/passwd")], "may point outside"),
    "relative link out": ([member("p/l", kind=tarfile.SYMTYPE, link="../../evil")], "may point outside"),
    "link out by turning at another link": (
        [
            member("p/q/l", kind=tarfile.SYMTYPE, link="d/../../x"),
            member("p/q/d", kind=tarfile.SYMTYPE, link="../.."),
        ],
        "may point outside",
    ),
    "write through a link": (
        [member("p/l", kind=tarfile.SYMTYPE, link="q"), member("p/l/evil", b"x")],
        "lies below 'p/l'",
    ),
    "hard link out": ([member("p/h", kind=tarfile.LNKTYPE, link="../../evil")], "hard link"),
    "absolute hard link": ([member("p/h", kind=tarfile.LNKTYPE, link="/etc/passwd")], "hard link"),
    "character device": ([member("p/null", kind=tarfile.CHRTYPE)], "device node"),
    "block device": ([member("p/sda", kind=tarfile.BLKTYPE)], "device node"),
    "fifo": ([member("p/pipe", kind=tarfile.FIFOTYPE)], "device node"),
    "setuid": ([member("p/su", b"x", mode=0o4755)], "setuid"),
    "setgid": ([member("p/sg", b"x", mode=0o2755)], "setuid"),
    "file then link": ([member("p/a", b"x"), member("p/a", kind=tarfile.SYMTYPE, link="b")], "comes twice"),
    "link then file": ([member("p/a", kind=tarfile.SYMTYPE, link="b"), member("p/a", b"x")], "comes twice"),
    "file then folder": ([member("p/a", b"x"), member("p/a", kind=tarfile.DIRTYPE)], "comes twice"),
    "file as a parent": ([member("p/a", b"x"), member("p/a/b", b"x")], "lies below"),
    "same file twice": ([member("p/a", b"x"), member("p/./a", b"y")], "comes twice"),
    "a part beyond 255 bytes": ([member(f"p/{'é' * 150}", b"x")], "a part of more than 255 bytes"),
    "a name beyond what a path may be": ([member("p/" + "d/" * 1024 + "a", b"x")], "a name of more than 2048 bytes"),
    "link to nothing": ([member("p/l", kind=tarfile.SYMTYPE)], "no file can be called"),
    "link to a name too long": ([member("p/l", kind=tarfile.SYMTYPE, link="a" * 256)], "no file can be called"),
}


@pytest.mark.parametrize(("members", "words"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_sdist_is_refused_by_member(tmp_path: Path, into: Path, members: list[Member], words: str) -> None:
    outside = tmp_path / "deep"
    with pytest.raises(ArchiveError, match=words) as caught:
        unpack_sdist(sdist(tmp_path / "evil-1.tar.gz", *members), into)
    assert caught.value.where in {info.name for info, _ in members}
    assert [item.name for item in outside.iterdir()] == ["into"]
    assert not any(stat.S_ISCHR(item.lstat().st_mode) or item.is_fifo() for item in into.rglob("*"))


def test_a_huge_declared_size_is_refused_before_it_is_written(tmp_path: Path, into: Path) -> None:
    info = tarfile.TarInfo("p/zeros")
    info.size = 1 << 40
    path = tmp_path / "bomb-1.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf() + bytes(1 << 20)))
    with pytest.raises(ArchiveError, match="beyond 17179869184 bytes"):
        unpack_sdist(path, into)
    assert list(into.iterdir()) == []


def test_many_small_members_are_bounded(tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    with pytest.raises(ArchiveError, match="beyond 3 members"):
        unpack_sdist(sdist(tmp_path / "many-1.tar.gz", *(member(f"p/{n}") for n in range(5))), into)


def test_a_header_that_wants_gigabytes_of_memory_is_refused(tmp_path: Path, into: Path) -> None:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    path = tmp_path / "header-1.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(ArchiveError, match="has a header of"):
        unpack_sdist(path, into)


def test_data_behind_the_end_mark_is_bounded(tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = gzip.decompress(sdist(tmp_path / "good-1.tar.gz", member("p/a", b"x")).read_bytes())
    path = tmp_path / "tail-1.tar.gz"
    path.write_bytes(gzip.compress(good + bytes(8 << 20)))
    monkeypatch.setattr(archive, "MAX_BYTES", 4 << 20)
    with pytest.raises(ArchiveError, match="goes on beyond"):
        unpack_sdist(path, into)


def pax(**records: str) -> bytes:
    """An extended header with these records, of lengths below 100."""
    lines = "".join(f"{len(key) + len(value) + 5} {key}={value}\n" for key, value in records.items()).encode()
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(lines)
    return info.tobuf(tarfile.USTAR_FORMAT) + lines + bytes(-len(lines) % tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (pax(comment="again") * 900, "is damaged: maximum recursion depth"),
        (pax(**{"GNU.sparse.map": "nothing"}), "is damaged: invalid literal for int"),
        (pax(path="aaa/bbb\0cc.py"), "has a NUL in its name"),
        (pax(size="-1000000"), "(has -1000000 bytes|is damaged)"),
    ],
    ids=["chained", "sparse map", "NUL", "negative size"],
)
def test_headers_that_tarfile_takes_as_they_stand(tmp_path: Path, into: Path, headers: bytes, words: str) -> None:
    path = tmp_path / "pax-1.tar.gz"
    path.write_bytes(gzip.compress(headers + tarfile.TarInfo("p/a").tobuf() + bytes(10240)))
    with pytest.raises(ArchiveError, match=words):
        unpack_sdist(path, into)
    assert list(into.iterdir()) == []


def test_a_full_disk_is_no_damage(tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "_copy", full)
    with pytest.raises(OSError, match="No space left"):
        unpack_sdist(sdist(tmp_path / "good-1.tar.gz", member("p/a", b"x")), into)


@pytest.mark.parametrize("keep", [0, 5, 40, -1, -8])
def test_a_truncated_sdist_is_damaged(tmp_path: Path, into: Path, keep: int) -> None:
    path = sdist(tmp_path / "cut-1.tar.gz", member("p/a", os.urandom(4096)))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArchiveError, match=r"cut-1.tar.gz is damaged"):
        unpack_sdist(path, into)


def test_a_flipped_byte_in_an_sdist_is_damage(tmp_path: Path, into: Path) -> None:
    path = sdist(tmp_path / "flip-1.tar.gz", member("p/a", os.urandom(4096)))
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged"):
        unpack_sdist(path, into)


def test_a_good_wheel_keeps_executable_bits_and_only_takes_what_is_asked(tmp_path: Path, into: Path) -> None:
    path = wheel(
        tmp_path / "p-1-py3-none-any.whl",
        ("p/", b"", stat.S_IFDIR | 0o755),
        ("p/tool", b"#!", stat.S_IFREG | 0o755),
        ("p/a.py", b"a", stat.S_IFREG | 0o664),
        ("p-1.dist-info/RECORD", b"", 0),
    )
    unpack_wheel(path, into, only=lambda name: name.startswith("p/"))
    assert sorted(str(item.relative_to(into)) for item in into.rglob("*")) == ["p", "p/a.py", "p/tool"]
    assert ((into / "p/tool").stat().st_mode & 0o777, (into / "p/a.py").stat().st_mode & 0o777) == (0o755, 0o644)


HOSTILE_WHEELS: dict[str, tuple[list[tuple[str, bytes, int]], str]] = {
    "absolute path": ([("/evil", b"x", 0)], "absolute path"),
    "climbs": ([("p/../../evil", b"x", 0)], "climbs out"),
    "link": ([("p/l", b"/etc/passwd", stat.S_IFLNK | 0o777)], "link or special file"),
    "device": ([("p/d", b"", stat.S_IFCHR | 0o644)], "link or special file"),
    "fifo": ([("p/f", b"", stat.S_IFIFO | 0o644)], "link or special file"),
    "setuid": ([("p/su", b"x", stat.S_IFREG | 0o4755)], "setuid"),
    "twice": ([("p/a", b"x", 0), ("p//a", b"y", 0)], "comes twice"),
    "file as a parent": ([("p/a", b"x", 0), ("p/a/b", b"y", 0)], "lies below"),
    "a part beyond 255 bytes": ([("p/" + "a" * 300, b"x", 0)], "a part of more than 255 bytes"),
}


@pytest.mark.parametrize(("members", "words"), HOSTILE_WHEELS.values(), ids=HOSTILE_WHEELS.keys())
def test_a_hostile_wheel_writes_nothing(
    tmp_path: Path, into: Path, members: list[tuple[str, bytes, int]], words: str
) -> None:
    path = wheel(tmp_path / "evil-1-py3-none-any.whl", *members)
    with pytest.raises(ArchiveError, match=words):
        unpack_wheel(path, into, only=lambda _: False)
    assert list(into.iterdir()) == []


def _patched(path: Path, change: Callable[[bytearray, int], None]) -> Path:
    """The wheel with `change` made to its first central directory entry."""
    data = bytearray(path.read_bytes())
    change(data, data.index(b"PK\x01\x02"))
    path.write_bytes(data)
    return path


def test_a_wheel_that_declares_a_huge_size_is_refused(tmp_path: Path, into: Path) -> None:
    def claim(data: bytearray, at: int) -> None:
        data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")

    path = wheel(tmp_path / "bomb-1-py3-none-any.whl", *((f"p/{n}", b"x", 0) for n in range(5)))
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        claim(data, at)
        at = data.find(b"PK\x01\x02", at + 4)
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="beyond 17179869184 bytes"):
        unpack_wheel(path, into)
    assert list(into.iterdir()) == []


def test_a_wheel_with_more_data_than_it_declares_is_damaged(tmp_path: Path, into: Path) -> None:
    def claim(data: bytearray, at: int) -> None:
        data[at + 24 : at + 28] = (10).to_bytes(4, "little")

    path = _patched(wheel(tmp_path / "lie-1-py3-none-any.whl", ("p/a", bytes(1 << 20), 0)), claim)
    with pytest.raises(ArchiveError, match="damaged"):
        unpack_wheel(path, into)


def test_an_encrypted_wheel_is_refused(tmp_path: Path, into: Path) -> None:
    def encrypt(data: bytearray, at: int) -> None:
        data[at + 8] |= 1

    path = _patched(wheel(tmp_path / "enc-1-py3-none-any.whl", ("p/a", b"x", 0)), encrypt)
    with pytest.raises(ArchiveError, match="encrypted"):
        unpack_wheel(path, into)


@pytest.mark.parametrize("keep", [0, 10, -1, -30])
def test_a_truncated_wheel_is_damaged(tmp_path: Path, into: Path, keep: int) -> None:
    path = wheel(tmp_path / "cut-1-py3-none-any.whl", ("p/a", os.urandom(4096), 0))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArchiveError, match="damaged"):
        unpack_wheel(path, into)


def test_a_corrupt_member_of_a_wheel_is_damage(tmp_path: Path, into: Path) -> None:
    path = wheel(tmp_path / "bad-1-py3-none-any.whl", ("p/a", os.urandom(4096), 0))
    data = bytearray(path.read_bytes())
    data[200] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged"):
        unpack_wheel(path, into)


def test_a_name_that_zipfile_would_cut_is_refused(tmp_path: Path, into: Path) -> None:
    """zipfile gives `aaa` for `aaa\\0bbb2`: what is checked would not be what is written."""
    path = wheel(tmp_path / "nul-1-py3-none-any.whl", ("aaa/bbb.py", b"x", 0), ("aaa#bbb2", b"y", 0))
    path.write_bytes(path.read_bytes().replace(b"aaa#bbb2", b"aaa\0bbb2"))
    with pytest.raises(ArchiveError, match="would be unpacked as 'aaa'"):
        unpack_wheel(path, into)
    assert list(into.iterdir()) == []


def test_a_directory_that_is_said_to_lie_elsewhere_is_damage(tmp_path: Path, into: Path) -> None:
    path = wheel(tmp_path / "off-1-py3-none-any.whl", ("p/a", b"x", 0))
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x05\x06") + 16
    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "little") + 1000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ArchiveError, match="damaged"):
        unpack_wheel(path, into)
