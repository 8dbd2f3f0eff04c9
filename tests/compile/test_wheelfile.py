import hashlib
import stat
import zipfile
from base64 import urlsafe_b64encode
from email import message_from_bytes
from pathlib import Path

from builder.compile.wheelfile import Part, new_wheel, wheel_text, write_wheel

PARTS = (Part("pkg/__init__.py", b"x = 1\n"), Part("pkg/lib.so", b"\x7fELF" * 99, 0o755))


def make(folder: Path, parts: tuple[Part, ...] = PARTS) -> Path:
    return new_wheel(
        folder,
        name="Some-Pkg",
        version="1.0+x.1",
        tag="py3-none-linux_aarch64",
        parts=parts,
        requires=["a==1"],
        summary="s",
    )


def test_the_same_parts_in_any_order_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = make(tmp_path / "1"), make(tmp_path / "2", PARTS[::-1])
    assert one.read_bytes() == two.read_bytes()
    assert one.name == "some_pkg-1.0+x.1-py3-none-linux_aarch64.whl"


def test_record_lists_every_file_with_its_digest(tmp_path: Path) -> None:
    with zipfile.ZipFile(make(tmp_path)) as archive:
        rows = dict(
            line.split(",", 1) for line in archive.read("some_pkg-1.0+x.1.dist-info/RECORD").decode().splitlines()
        )
        assert set(rows) == set(archive.namelist())
        digest = urlsafe_b64encode(hashlib.sha256(archive.read("pkg/lib.so")).digest()).rstrip(b"=").decode()
        assert rows["pkg/lib.so"] == f"sha256={digest},396"
        assert archive.namelist()[-1].endswith("RECORD")


def test_modes_are_kept_and_dates_are_fixed(tmp_path: Path) -> None:
    with zipfile.ZipFile(make(tmp_path)) as archive:
        info = archive.getinfo("pkg/lib.so")
        assert stat.S_IMODE(info.external_attr >> 16) == 0o755
        assert {each.date_time for each in archive.infolist()} == {(2020, 1, 1, 0, 0, 0)}


def test_metadata_reads_back(tmp_path: Path) -> None:
    with zipfile.ZipFile(make(tmp_path)) as archive:
        metadata = message_from_bytes(archive.read("some_pkg-1.0+x.1.dist-info/METADATA"))
    assert (metadata["Name"], metadata["Version"], metadata.get_all("Requires-Dist")) == (
        "Some-Pkg",
        "1.0+x.1",
        ["a==1"],
    )


def test_a_part_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    def broken() -> bytes:
        raise OSError

    try:
        write_wheel(tmp_path / "x.whl", [Part("a", broken)], "x.dist-info")
    except OSError:
        assert list(tmp_path.iterdir()) == []
    else:
        raise AssertionError


def test_only_any_wheels_are_purelib() -> None:
    assert "Root-Is-Purelib: true" in wheel_text(["py3-none-any"])
    assert "Root-Is-Purelib: false" in wheel_text(["cp38-abi3-manylinux_2_34_aarch64"])
