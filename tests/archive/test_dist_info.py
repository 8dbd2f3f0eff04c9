"""Whoever reads a wheel's dist-info is told in words that it is damaged, whatever the damage."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.archive import dist_info_file
from builder.errors import ArchiveError, BuilderError, InspectError, PublishError, WheelError
from builder.image.needs import project_of
from builder.publish.entry import read_offer
from builder.supply import record_in
from builder.verify.image.wheels import installed_of
from tests.publish.wheels import verified

NAME, INFO = "demo-1.0-py3-none-any.whl", "demo-1.0.dist-info"
METADATA = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n" + b"Classifier: x\n" * 50
FILES = {f"{INFO}/METADATA": METADATA, f"{INFO}/RECORD": b"a.py,,\n" * 50, f"{INFO}/spark-wheels.json": b"{}" * 50}
READERS: tuple[tuple[Callable[[Path], object], type[BuilderError]], ...] = (
    (lambda path: read_offer(verified(path)), PublishError),
    (project_of, WheelError),
    (record_in, InspectError),
    (installed_of, InspectError),
    (lambda path: dist_info_file(path, "METADATA"), ArchiveError),
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return path


def damaged(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    for info in infos:
        start = info.header_offset
        if kind == "deflate":
            data[start + 30 + len(info.filename)] = 0x07  # a block of a type that there is not
        elif kind == "checksum":
            data[start + 30 + len(info.filename) + 8] ^= 0xFF
        elif kind == "encrypted":
            data[start + 6] |= 1
    directory = data.index(b"PK\x01\x02")
    while kind in {"encrypted", "method"} and directory != -1:
        data[directory + (8 if kind == "encrypted" else 10)] |= 1 if kind == "encrypted" else 99
        directory = data.find(b"PK\x01\x02", directory + 4)
    path.write_bytes(data[: len(data) // 2] if kind == "cut" else data)


@pytest.mark.parametrize("kind", ["deflate", "checksum", "encrypted", "method", "cut"])
@pytest.mark.parametrize(("read", "error"), READERS)
def test_damage_is_told(wheel: Path, read: Callable[[Path], object], error: type[BuilderError], kind: str) -> None:
    damaged(wheel, kind)
    with pytest.raises(error) as caught:
        read(wheel)
    assert NAME in str(caught.value)


def test_a_folder_of_that_name_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    for read, error in READERS[1:]:
        with pytest.raises(error):
            read(tmp_path / NAME)


def test_a_file_of_dist_info_is_read_and_its_absence_is_none(wheel: Path) -> None:
    assert dist_info_file(wheel, "METADATA") == METADATA
    assert dist_info_file(wheel, "entry_points.txt") is None
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("other-1.dist-info/METADATA", METADATA)
    with pytest.raises(ArchiveError, match=r"2 \.dist-info/METADATA files, not one"):
        dist_info_file(wheel, "METADATA")
