"""Bytes that are not what they claim to be: always a clear finding, never a traceback, a hang or a flood."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.errors import InspectError
from builder.inspect import elf, fatbin, inspect_path
from builder.inspect.contract import to_json
from builder.inspect.objects import HEAD, Asked, inspect_object, is_object

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
SEEDS = {
    path.name: path.read_bytes()
    for path in sorted(SAMPLES.iterdir())
    if path.name.startswith(("launch_", "flow_sm_121a", "mma_", "relocatable", "glibc", "scale.fatbin"))
}
EDGES = (0, 1, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, (1 << 64) - 1)


def read(name: str, data: bytes) -> None:
    """Everything that inspect would do with these bytes, without its last safety net."""
    if is_object(name, data[:HEAD]):
        list(inspect_object(name, memoryview(data), Asked("all", ("12.1",))))


def outcome(act: Callable[[], object]) -> InspectError | None:
    """None when it went well; anything but an InspectError goes through and fails the test."""
    try:
        act()
    except InspectError as error:
        return error
    return None


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, bytes]:
    """A sample with a few fields overwritten, mostly in its headers, and perhaps cut short."""
    name = draw(st.sampled_from(sorted(SEEDS)))
    data = bytearray(SEEDS[name])
    fatbin = max(data.find(struct.pack("<I", 0xBA55ED50)), 0)
    table = min(int.from_bytes(data[40:48], "little"), len(data) - 1)
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.sampled_from((0, fatbin, table, draw(st.integers(0, len(data) - 1)))))
        at = min(start + draw(st.integers(0, 320)), len(data) - 1)
        width = draw(st.sampled_from((1, 2, 4, 8)))
        value = draw(st.sampled_from((*EDGES, len(data))) | st.integers(0, (1 << 64) - 1))
        data[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    if draw(st.booleans()):
        del data[draw(st.integers(1, len(data))) :]
    return name, bytes(data)


@settings(max_examples=150, deadline=5000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(broken())
def test_a_damaged_binary_is_an_inspect_error(case: tuple[str, bytes]) -> None:
    error = outcome(lambda: read(*case))
    assert error is None or (error.what and error.where)


@settings(max_examples=30, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_damaged_wheel_is_an_error_or_a_finding(
    make_wheel: Callable[..., Path], changes: list[tuple[float, int]], tail: bool
) -> None:
    path = make_wheel({"demo/_C.so": SEEDS["launch_zstd.so"]})
    data = bytearray(path.read_bytes())
    directory = data.rfind(b"PK\5\6") - 700 if tail else 0
    for place, value in changes:
        data[directory + int(place * (len(data) - directory))] = value
    path.write_bytes(data)
    outcome(lambda: inspect_path(path))


@pytest.mark.parametrize("name", sorted(SEEDS))
@pytest.mark.parametrize("part", [0.01, 0.3, 0.7, 0.99])
def test_a_file_cut_short(tmp_path: Path, name: str, part: float) -> None:
    path = tmp_path / name
    path.write_bytes(SEEDS[name][: int(len(SEEDS[name]) * part)])
    error = outcome(lambda: inspect_path(path))
    assert error is None or str(path) in str(error)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"hello world\n", b"!<arch>\nxx", b"\x50\xed\x55\xba"])
@pytest.mark.parametrize("name", ["file.so", "file.whl"])
def test_no_such_thing_at_all(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InspectError, match="next:"):
        inspect_path(path)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="cannot read it"):
        inspect_path(tmp_path / "absent.so")


def container(payload: bytes, plain: int, flags: int, kind: int = 2) -> bytes:
    """A container with one compressed entry, as the reader expects it."""
    padded = payload + b"\0" * (-len(payload) % 8)
    entry = struct.pack("<HHIQI", kind, 0x101, 64, len(padded), len(payload))
    entry += struct.pack("<IHHI", 0, 0, 9, 120) + b"\0" * 8 + struct.pack("<QQQ", flags, 0, plain)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(padded)) + entry + padded


@pytest.mark.parametrize(
    ("payload", "plain", "flags", "match"),
    [
        (zstandard.compress(b"\0" * (1 << 28)), 1 << 28, 0x8000, "claims to unpack"),
        (zstandard.compress(b"\0" * (1 << 28)), 1 << 12, 0x8000, "its frame says"),
        (b"\x1f" * 64, 1 << 40, 0x2000, "claims to unpack"),
        (b"\xff" * 64, 4096, 0x2000, "is damaged"),
        (b"\xff" * 64, 4096, 0x8000, "is damaged"),
        (b"\xff" * 64, 4096, 0x0, "unknown way"),
        (zstandard.compress(b"no cubin at all" * 10), 150, 0x8000, "no ELF"),
    ],
)
def test_a_payload_that_floods_or_lies(tmp_path: Path, payload: bytes, plain: int, flags: int, match: str) -> None:
    path = tmp_path / "bad.fatbin"
    path.write_bytes(container(payload, plain, flags))
    with pytest.raises(InspectError, match=match):
        inspect_path(path)


def test_a_zstandard_stream_without_a_size_stops_at_the_entrys(tmp_path: Path) -> None:
    writer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    payload = writer.compress(b"\0" * (1 << 26)) + writer.flush()
    path = tmp_path / "bad.fatbin"
    path.write_bytes(container(payload, 4096, 0x8000))
    with pytest.raises(InspectError, match="is damaged"):
        inspect_path(path)


def test_a_member_that_claims_more_than_deflate_can_hold(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel({"demo/_C.so": SEEDS["launch_ptx.so"]})
    data = bytearray(path.read_bytes())
    entry = data.find(b"PK\1\2")
    data[entry + 24 : entry + 28] = struct.pack("<I", 0xFFFFFFF0)
    path.write_bytes(data)
    with pytest.raises(InspectError, match="claims to unpack"):
        inspect_path(path)


def test_a_member_with_other_bytes(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel({"demo/a.py": b"x" * 1000})
    data = bytearray(path.read_bytes())
    entry = data.find(b"PK\1\2")
    data[entry + 16 : entry + 20] = struct.pack("<I", zlib.crc32(b"y"))
    path.write_bytes(data)
    with pytest.raises(InspectError, match="size or CRC"):
        inspect_path(path)


def test_names_that_overlap_are_no_flood() -> None:
    """10,000 symbols that share one string of 100 kB would be a gigabyte of names."""
    text = b"\0" + b"x" * 100_000 + b"\0"
    symbols = b"".join(struct.pack("<IBBHQQ", 1 + i, 0x12, 0, 0, 0, 0) for i in range(10_000))
    strings_at, symbols_at = 64, 64 + len(text)
    table = symbols_at + len(symbols)
    header = b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 0)
    sections = b"\0" * 64
    sections += struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, symbols_at, len(symbols), 2, 0, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, strings_at, len(text), 0, 0, 1, 0)
    with pytest.raises(InspectError, match="overlap without reason"):
        read("flood.so", header + text + symbols + sections)


def test_code_that_overlaps_is_refused(tmp_path: Path) -> None:
    data = bytearray(SEEDS["mma_sm_80.cubin"])
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    code = [table + 64 * i for i in range(count) if struct.unpack_from("<Q", data, table + 64 * i + 8)[0] & 4]
    for at in code[1:]:
        data[at + 24 : at + 40] = data[code[0] + 24 : code[0] + 40]
    path = tmp_path / "overlap.cubin"
    path.write_bytes(data)
    with pytest.raises(InspectError, match="overlaps another's"):
        inspect_path(path)


def test_a_directory_that_begins_later_than_it_says(make_wheel: Callable[..., Path]) -> None:
    """zipfile then takes all members for bytes before the file's first."""
    path = make_wheel({"demo/a.py": b"x" * 1000})
    data = bytearray(path.read_bytes())
    end = data.rfind(b"PK\5\6")
    said = struct.unpack_from("<I", data, end + 16)[0]
    struct.pack_into("<I", data, end + 16, said + 1000)
    path.write_bytes(data)
    with pytest.raises(InspectError, match="begins outside the file"):
        inspect_path(path)


def test_a_member_without_a_name_is_a_finding(make_wheel: Callable[..., Path]) -> None:
    path = make_wheel({"demo/a.py": b"x" * 1000})
    data = bytearray(path.read_bytes())
    entry = data.find(b"PK\1\2")
    length = struct.unpack_from("<H", data, entry + 28)[0]
    struct.pack_into("<HHH", data, entry + 28, 0, 0, length)  # its name becomes its comment
    path.write_bytes(data)
    said = {(finding.where, finding.message) for finding in inspect_path(path).findings}
    assert said == {
        ("", "the file is not in RECORD"),
        ("demo/a.py", "RECORD lists a file that is not there"),
    }


def test_a_damaged_lz4_payload_of_a_real_object(tmp_path: Path) -> None:
    data = bytearray(SEEDS["launch_lz4.so"])
    section = next(elf.fatbin_sections(elf.parse(memoryview(bytes(data)))))
    payload = next(bytes(entry.payload) for entry in fatbin.entries(section) if entry.compression == "lz4")
    start = data.index(payload)
    data[start : start + 8] = b"\xff" * 8
    path = tmp_path / "launch.so"
    path.write_bytes(data)
    with pytest.raises(InspectError, match="a lz4 payload is damaged"):
        inspect_path(path, level="all")


@pytest.mark.parametrize("field", ["Tag", "Name", "Version"])
def test_metadata_beyond_ascii_is_a_finding(make_wheel: Callable[..., Path], field: str) -> None:
    """Read from bytes, such a header is no string."""
    texts = {"Tag": "Tag: cp38-abi3-é\n", "Name": "Name: démo\nVersion: 1.0\n", "Version": "Name: demo\nVersion: é\n"}
    kind = "wheel" if field == "Tag" else "metadata"
    path = make_wheel({"demo/a.py": b""}, **{kind: texts[field]})
    expected = {"Tag": "wheel-tags", "Name": "wheel-name", "Version": "wheel-version"}[field]
    found = inspect_path(path)
    assert [finding.rule for finding in found.findings] == [expected]
    json.dumps(to_json([found], details=True))


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"Name: \xe9\nVersion: \x80\n", b"\r\r\n: :\n"])
def test_metadata_in_another_encoding_under_a_name_that_is_none(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "whatever.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("METADATA", "WHEEL", "RECORD"):
            archive.writestr(f"demo-1.0.dist-info/{name}", text)
    found = inspect_path(path)
    assert "wheel-name" in {finding.rule for finding in found.findings}
    json.dumps(to_json([found], details=True))


@pytest.mark.parametrize("size", [(1 << 63) - 16, (1 << 63) - 1, 1 << 63, (1 << 64) - 16])
def test_code_of_an_absurd_size_lies_outside_the_file(size: int) -> None:
    data = bytearray(SEEDS["mma_sm_121a.cubin"])
    table, each, count = (int.from_bytes(data[at:end], "little") for at, end in ((40, 48), (58, 60), (60, 62)))
    for header in range(table, table + each * count, each):
        kind, flags = struct.unpack_from("<4xIQ", data, header)
        if kind == 1 and flags & 4:
            struct.pack_into("<Q", data, header + 32, size)
    error = outcome(lambda: read("x.cubin", bytes(data)))
    assert error is not None
    assert "outside the file" in error.what


def relabelled(data: bytes, number: int | None = None, flags: int | None = None) -> bytes:
    """A fatbin whose first entry's header says another architecture than its cubin."""
    changed = bytearray(data)
    entry = data.find(struct.pack("<HH", 2, 0x101))
    if number is not None:
        struct.pack_into("<I", changed, entry + 28, number)
    if flags is not None:
        struct.pack_into("<Q", changed, entry + 40, flags)
    return bytes(changed)


@pytest.mark.parametrize(
    ("number", "flags", "match"),
    [
        (121, None, "its entry is for sm_121f, the cubin in it for sm_120f"),
        (None, 0x100000, "its entry is for sm_120a, the cubin in it for sm_120f"),
    ],
)
def test_an_entry_that_says_another_architecture_than_its_cubin(
    tmp_path: Path, samples: Path, number: int | None, flags: int | None, match: str
) -> None:
    path = tmp_path / "relabelled.o"
    path.write_bytes(relabelled((samples / "scale_sm_120f.o").read_bytes(), number, flags))
    with pytest.raises(InspectError, match=match):
        inspect_path(path)


def test_without_a_note_the_numbers_alone_must_agree(tmp_path: Path, samples: Path) -> None:
    data = (samples / "scale_sm_120f.o").read_bytes().replace(b"-arch sm_120f", b"-gone sm_120f")
    path = tmp_path / "noteless.o"
    path.write_bytes(relabelled(data))
    assert inspect_path(path).objects[0].images[0].arch == "sm_120f"
    path.write_bytes(relabelled(data, 121))
    with pytest.raises(InspectError, match=r"the cubin in it for sm_120\n"):
        inspect_path(path)


def without_sections(data: bytes) -> bytes:
    """What strip --strip-section-headers leaves in the header."""
    return data[:40] + b"\0" * 8 + data[48:60] + b"\0" * 4 + data[64:]


def test_a_binary_without_sections_is_a_finding_wherever_it_lies(
    tmp_path: Path, samples: Path, make_wheel: Callable[..., Path]
) -> None:
    data = without_sections((samples / "launch_zstd.so").read_bytes())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "_C.so").write_bytes(data)
    for path in (tmp_path / "folder" / "_C.so", tmp_path / "folder", make_wheel({"demo/_C.so": data})):
        (finding,) = inspect_path(path).findings
        assert finding.rule == "binary"
        assert finding.where.endswith("_C.so")
        assert "has no sections" in finding.message


def test_a_binary_with_one_empty_section_is_the_same(tmp_path: Path, samples: Path) -> None:
    data = bytearray((samples / "nothing.so").read_bytes())
    struct.pack_into("<HH", data, 60, 1, 0)
    path = tmp_path / "nothing.so"
    path.write_bytes(data)
    assert [finding.rule for finding in inspect_path(path).findings] == ["binary"]
    assert inspect_path(samples / "nothing.so").findings == ()


def test_a_cubin_without_sections_is_an_error(tmp_path: Path, samples: Path) -> None:
    path = tmp_path / "x.cubin"
    path.write_bytes(without_sections((samples / "mma_sm_80.cubin").read_bytes()))
    with pytest.raises(InspectError, match="without sections"):
        inspect_path(path)
