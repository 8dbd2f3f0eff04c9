import io
import os
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from builder.compile import zipwrite
from builder.compile.finish import Finisher
from builder.compile.host import Compilers
from builder.compile.zipwrite import Packed, pack, write_zip
from builder.context import Context
from builder.errors import WheelError
from builder.inspect.elf import link_facts, parse

SAMPLES = Path(__file__).parent.parent / "data" / "samples"

FILES = {"a/empty": b"", "a/text.txt": b"hello\n" * 500, "b/größe.bin": os.urandom(3000), "z": b"\0" * 100_000}


def archive_of(members: list[Packed]) -> zipfile.ZipFile:
    stream = io.BytesIO()
    write_zip(stream, members)
    return zipfile.ZipFile(stream)


def test_what_is_written_reads_back_in_order_with_modes_dates_and_no_extra_fields() -> None:
    archive = archive_of([pack(name, data, 0o755) for name, data in FILES.items()])
    assert archive.testzip() is None
    assert {name: archive.read(name) for name in archive.namelist()} == FILES
    assert list(archive.namelist()) == list(FILES)
    for info in archive.infolist():
        assert (info.external_attr >> 16, info.date_time, info.extra) == (0o100755, (2020, 1, 1, 0, 0, 0), b"")


def test_a_packed_file_gives_its_bytes_back() -> None:
    assert {name: pack(name, data, 0o644).read() for name, data in FILES.items()} == FILES


def test_an_archive_without_files_is_one() -> None:
    assert archive_of([]).namelist() == []


def test_more_than_the_plain_form_holds_is_refused() -> None:
    member = pack("x", b"x", 0o644)
    with pytest.raises(WheelError, match="too many for one wheel"):
        write_zip(io.BytesIO(), [member] * 65536)


@pytest.fixture
def compilers(tmp_path: Path) -> Compilers:
    """Its strip cuts off the last byte and notes each run."""
    strip = tmp_path / "strip"
    lines = [
        "#!/bin/sh",
        '[ "$1" = --version ] && echo strip 1 && exit',
        f"echo run >> {tmp_path}/runs",
        'truncate -s -1 "$2"',
    ]
    strip.write_text("\n".join(lines) + "\n")
    strip.chmod(0o755)
    return Compilers(Path("cc"), Path("c++"), strip, "1", cross=False)


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text().splitlines())


def test_an_object_is_stripped_once_and_then_kept_by_its_content(
    compilers: Compilers, context: Context, tmp_path: Path
) -> None:
    first = Finisher(tmp_path, compilers, context).finished("p/a.so", b"object!")
    again = Finisher(tmp_path, compilers, context).finished("q/b.so", b"object!")
    assert (first.read(), again.read(), again.name) == (b"object", b"object", "q/b.so")
    assert first.data == again.data
    assert runs(tmp_path) == 1
    Finisher(tmp_path, compilers, context).finished("p/a.so", b"other!!")
    assert runs(tmp_path) == 2


def test_an_object_of_others_is_packed_as_it_is_and_not_taken_for_a_stripped_one(
    compilers: Compilers, context: Context, tmp_path: Path
) -> None:
    finisher = Finisher(tmp_path, compilers, context)
    assert finisher.finished("a.so", b"object!").read() == b"object"
    assert finisher.packed("a.so", "digest of an archive", lambda: b"object!").read() == b"object!"
    assert finisher.packed("a.so", "digest of an archive", lambda: pytest.fail("read again")).read() == b"object!"
    assert finisher.packed("a.so", "digest of another", lambda: b"another").read() == b"another"
    assert runs(tmp_path) == 1


def test_what_an_object_needs_is_read_once(compilers: Compilers, context: Context, tmp_path: Path) -> None:
    packed = pack("a.so", (SAMPLES / "glibc.so").read_bytes(), 0o755)
    said = link_facts(parse(memoryview(packed.read())))
    finisher = Finisher(tmp_path, compilers, context)
    first = finisher.needs("a.so", packed)
    assert (first.machine, first.needed, first.versions) == (said.machine, said.needed, said.versions)
    assert first.versions
    assert finisher.needs("a.so", replace(packed, data=b"not to be unpacked again")) == first
    (record,) = (context.store.root / "records" / "object-needs").iterdir()
    record.write_text('{"machine": "aarch64", "needed": 7}')
    assert finisher.needs("a.so", packed) == first


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_one_that_was_damaged_on_the_disk_is_made_again(
    damage: bytes | None, compilers: Compilers, context: Context, tmp_path: Path
) -> None:
    Finisher(tmp_path, compilers, context).finished("a.so", b"object!" * 50)
    (blob,) = (context.store.root / "blobs").iterdir()
    if damage is None:
        blob.unlink()
    else:
        blob.write_bytes(damage)
    assert Finisher(tmp_path, compilers, context).finished("a.so", b"object!" * 50).read() == (b"object!" * 50)[:-1]
    assert runs(tmp_path) == 2


def test_the_form_names_all_that_decides_the_packed_bytes() -> None:
    assert str(zipwrite.LEVEL) in zipwrite.FORM
    assert version("deflate") in zipwrite.FORM
