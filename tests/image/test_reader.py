"""The layout reader: merging as a runtime does, and every way in which an image can be less than whole."""

from __future__ import annotations

import hashlib
import io
import json
import random
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from builder.errors import InspectError
from builder.inspect.oci import Entry, Root, image_json, image_text, inspect_image, is_reference
from tests.image.layouts import FOLDER, Node, Picture, layer_tar, link, write_docker_archive, write_layout


def merged(folder: Path, *layers: bytes, compression: str = "gzip") -> Root:
    write_layout(folder, Picture(layers, compression=compression))
    return inspect_image(f"oci:{folder}").root


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
def test_files_are_read_with_digest_and_mode(tmp_path: Path, compression: str) -> None:
    data = bytes(range(256)) * 9000
    root = merged(tmp_path, layer_tar({"a": FOLDER, "a/b": Node(data, 0o755)}), compression=compression)
    entry = root.entries["a/b"]
    assert (entry.kind, entry.mode, entry.size) == ("file", 0o755, len(data))
    assert entry.sha256 == hashlib.sha256(data).hexdigest()
    assert entry.head == data[:20]


def test_a_later_layer_wins_and_whiteouts_take_only_from_below(tmp_path: Path) -> None:
    low = layer_tar(
        {"d": FOLDER, "d/x": Node(b"1"), "d/y": Node(b"1"), "e": FOLDER, "e/z": Node(b"1"), "k": Node(b"1")}
    )
    high = layer_tar([("e/new", Node(b"2")), ("e/.wh..wh..opq", Node()), ("d/.wh.x", Node()), ("k", Node(b"22"))])
    root = merged(tmp_path, low, high)
    files = {path: entry.size for path, entry in root.entries.items() if entry.kind == "file"}
    assert files == {"d/y": 1, "e/new": 1, "k": 2}
    assert root.entries["k"].layer == 1


def test_a_whiteout_of_a_folder_takes_what_is_in_it(tmp_path: Path) -> None:
    low = layer_tar({"d": FOLDER, "d/in": FOLDER, "d/in/x": Node(b"1"), "dx": Node(b"1")})
    root = merged(tmp_path, low, layer_tar({".wh.d": Node()}))
    assert set(root.entries) == {"dx"}


def test_a_file_takes_the_place_of_a_folder_and_the_other_way_round(tmp_path: Path) -> None:
    low = layer_tar({"d": FOLDER, "d/x": Node(b"1"), "f": Node(b"1")})
    root = merged(tmp_path, low, layer_tar({"d": Node(b"2"), "f": FOLDER, "f/y": Node(b"2")}))
    assert {path: entry.kind for path, entry in root.entries.items()} == {"d": "file", "f": "folder", "f/y": "file"}


def test_members_below_a_linked_folder_land_where_the_link_points(tmp_path: Path) -> None:
    low = layer_tar({"usr": FOLDER, "usr/lib": FOLDER, "lib": link("usr/lib")})
    root = merged(tmp_path, low, layer_tar({"lib/libcuda.so.1": Node(b"stub")}))
    assert "usr/lib/libcuda.so.1" in root.entries
    assert root.entry("/lib/libcuda.so.1") is root.entries["usr/lib/libcuda.so.1"]


def test_hard_links_are_the_file_that_they_name(tmp_path: Path) -> None:
    nodes = {"a": Node(b"text", 0o755), "b": Node(kind=tarfile.LNKTYPE, target="a")}
    root = merged(tmp_path, layer_tar(nodes))
    assert root.entries["b"].sha256 == root.entries["a"].sha256


def test_links_stay_inside_and_circles_end() -> None:
    entries = {"a": Node(), "l": link("/../../etc/x"), "c": link("d"), "d": link("c")}
    root = Root({p: Entry("link" if n.target else "file", n.mode, target=n.target) for p, n in entries.items()})
    assert root.real("l/y") == "etc/x/y"
    assert root.real("c/y") in {"c/y", "d/y"}


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x"])
def test_a_member_outside_the_root_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InspectError, match="lies outside its root"):
        merged(tmp_path, layer_tar({name: Node(b"x")}))


def test_a_hard_link_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="hard link"):
        merged(tmp_path, layer_tar({"b": Node(kind=tarfile.LNKTYPE, target="not/there")}))


@pytest.mark.parametrize("which", ["manifest", "config", "layer"])
def test_a_blob_with_other_bytes_is_refused(tmp_path: Path, which: str) -> None:
    write_layout(tmp_path, Picture([layer_tar({"a": Node(b"x")})]))
    index = json.loads((tmp_path / "index.json").read_text())
    blobs = tmp_path / "blobs" / "sha256"
    manifest = blobs / index["manifests"][0]["digest"][7:]
    inner = json.loads(manifest.read_text())
    config, layer = inner["config"]["digest"][7:], inner["layers"][0]["digest"][7:]
    path = {"manifest": manifest, "config": blobs / config, "layer": blobs / layer}[which]
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(InspectError) as caught:
        inspect_image(f"oci:{tmp_path}")
    assert "pull or build the image again" in str(caught.value)


def test_a_layer_that_is_not_its_diff_id_is_refused(tmp_path: Path) -> None:
    picture = Picture([layer_tar({"a": Node(b"x")})])
    write_docker_archive(tmp_path / "good.tar", picture)
    facts = inspect_image(f"docker-archive:{tmp_path / 'good.tar'}")
    assert set(facts.root.entries) == {"a"}
    data = (tmp_path / "good.tar").read_bytes()
    at = data.index(b"x" + bytes(511))
    (tmp_path / "bad.tar").write_bytes(data[:at] + b"y" + data[at + 1 :])
    with pytest.raises(InspectError, match="the config says"):
        inspect_image(f"docker-archive:{tmp_path / 'bad.tar'}")


def test_a_cut_layer_is_refused(tmp_path: Path) -> None:
    write_layout(tmp_path, Picture([layer_tar({"a": Node(b"x" * 100_000)})]))
    for path in (tmp_path / "blobs" / "sha256").iterdir():
        if path.read_bytes()[:2] == b"\x1f\x8b":
            path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InspectError):
        inspect_image(f"oci:{tmp_path}")


def test_the_platform_chooses_and_so_does_the_tag(tmp_path: Path) -> None:
    one, two = (Picture([layer_tar({name: Node()})], architecture=name) for name in ("arm64", "amd64"))
    write_layout(tmp_path / "platforms", one, two)
    assert set(inspect_image(f"oci:{tmp_path / 'platforms'}", "linux/amd64").root.entries) == {"amd64"}
    with pytest.raises(InspectError, match="has 0 of image for linux/s390x"):
        inspect_image(f"oci:{tmp_path / 'platforms'}", "linux/s390x")
    write_layout(tmp_path / "tags", *(Picture([layer_tar({tag: Node()})], tag=tag) for tag in ("v1", "v2")))
    assert set(inspect_image(f"oci:{tmp_path / 'tags'}:v2").root.entries) == {"v2"}
    with pytest.raises(InspectError, match="name one with oci:PATH:TAG"):
        inspect_image(f"oci:{tmp_path / 'tags'}")


@pytest.mark.parametrize(
    "spoil",
    [b"", b"{}", b"[1]", b'{"manifests": [3]}', b'{"manifests": [{"mediaType": "x", "digest": "sha256:../../etc"}]}'],
)
def test_an_index_of_another_shape_is_refused(tmp_path: Path, spoil: bytes) -> None:
    write_layout(tmp_path, Picture([layer_tar({})]))
    (tmp_path / "index.json").write_bytes(spoil)
    with pytest.raises(InspectError):
        inspect_image(f"oci:{tmp_path}")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InspectError, match="there is no"):
        inspect_image(f"oci:{tmp_path / 'gone'}")
    with pytest.raises(InspectError, match=r"no index\.json"):
        inspect_image(f"oci:{tmp_path}")
    assert is_reference("oci:x")
    assert not is_reference("x.whl")


def test_special_files_are_seen_and_not_made(tmp_path: Path) -> None:
    root = merged(tmp_path, layer_tar({"dev/null": Node(kind=tarfile.CHRTYPE, mode=0o666)}))
    assert root.entries["dev/null"].kind == "device"


def test_the_verb_tells_people_and_machines(tmp_path: Path) -> None:
    info = "opt/x/site-packages/demo-1.0.dist-info/METADATA"
    write_layout(tmp_path, Picture([layer_tar({info: Node(b"Name: demo\n")})], {"User": "7"}))
    facts = inspect_image(f"oci:{tmp_path}")
    assert "1 Python projects: demo 1.0" in image_text(facts)
    document = image_json(facts)
    assert (document["user"], document["platform"], document["files"]) == ("7", "linux/arm64", 1)
    call = [sys.executable, "-m", "builder", "inspect", f"oci:{tmp_path}", "--json"]
    said = json.loads(subprocess.run(call, check=True, capture_output=True).stdout)
    assert said["images"] == [document | {"reference": f"oci:{tmp_path}"}]


def test_a_tar_with_a_huge_header_does_not_fill_memory(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("a"))
    write_layout(tmp_path, Picture([stream.getvalue() + b"\0" * 10_000_000]))
    assert set(inspect_image(f"oci:{tmp_path}").root.entries) == {"a"}


def test_damage_anywhere_is_an_inspect_error_and_nothing_else(tmp_path: Path) -> None:
    nodes = {"a": FOLDER, "a/b": Node(b"text" * 50), "c": link("a"), "d": Node(kind=tarfile.LNKTYPE, target="a/b")}
    write_docker_archive(tmp_path / "good.tar", Picture([layer_tar(nodes), layer_tar({"a/.wh.b": Node()})]))
    good = (tmp_path / "good.tar").read_bytes()
    dice = random.Random(7)  # noqa: S311  no secret
    refused = 0
    for _ in range(300):
        data = bytearray(good)
        for _ in range(dice.choice((1, 1, 8, 64))):
            data[dice.randrange(len(data))] = dice.randrange(256)
        (tmp_path / "bad.tar").write_bytes(data[: dice.choice((len(data), dice.randrange(len(data))))])
        try:
            inspect_image(f"docker-archive:{tmp_path / 'bad.tar'}")
        except InspectError:
            refused += 1
    assert refused > 150
