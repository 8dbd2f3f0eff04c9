"""The layout reader: merging as a runtime does, and every way in which an image can be less than whole."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builder.errors import InspectError
from builder.inspect.oci import Entry, Root, image_json, image_text, inspect_image, is_reference, layers
from tests.image import layouts
from tests.image.layouts import (
    CONFIG,
    FOLDER,
    LAYER,
    MANIFEST,
    Node,
    Picture,
    config_of,
    dump,
    layer_tar,
    link,
    put,
    write_docker_archive,
    write_layout,
)


def merged(folder: Path, *plain: bytes, compression: str = "gzip") -> Root:
    write_layout(folder, Picture(plain, compression=compression))
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


def test_a_hard_link_gives_its_mode_and_owner_to_the_file_that_it_names(tmp_path: Path) -> None:
    high = layer_tar({"b": Node(kind=tarfile.LNKTYPE, target="a", mode=0o4755, owner=7)})
    root = merged(tmp_path, layer_tar({"a": Node(b"text", 0o755)}), high)
    assert root.entries["a"] == root.entries["b"]
    assert (root.entries["a"].mode, root.entries["a"].owner, root.entries["a"].layer) == (0o4755, (7, 7), 1)


def test_whiteouts_follow_linked_folders_and_are_told(tmp_path: Path) -> None:
    low = layer_tar({"usr/lib": FOLDER, "usr/lib/x": Node(b"1"), "usr/bin/y": Node(b"1"), "lib": link("usr/lib"),
                     "bin": link("usr/bin"), "empty": FOLDER})  # fmt: skip
    high = layer_tar({"lib/.wh.x": Node(), "bin/.wh..wh..opq": Node(), "empty/.wh..wh..opq": Node()})
    write_layout(tmp_path, Picture([low, high]))
    facts = inspect_image(f"oci:{tmp_path}")
    assert {path for path, entry in facts.root.entries.items() if entry.kind == "file"} == set()
    assert [layer.removed for layer in facts.layers] == [(), ("usr/bin/y", "usr/lib/x")]


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


@pytest.mark.parametrize("wrong", [{"artifactType": "x/y"}, {"platform": {"os": "unknown", "architecture": "unknown"}}])
def test_two_of_one_tag_or_platform_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    """Another tool takes the first, whatever it is said to be."""
    write_layout(tmp_path, *(Picture([layer_tar({name: Node()})], tag="t") for name in ("evil", "good")))
    index = json.loads((tmp_path / "index.json").read_bytes())
    index["manifests"][0] |= wrong
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(InspectError, match="has 2 of t for linux/arm64"):
        inspect_image(f"oci:{tmp_path}:t")


def test_a_file_that_comes_twice_in_a_saved_image_is_refused(tmp_path: Path) -> None:
    write_docker_archive(tmp_path / "good.tar", Picture([layer_tar({"a": Node(b"x")})]))
    with tarfile.open(tmp_path / "good.tar", "a") as tar:
        again = tarfile.TarInfo("./manifest.json")
        again.size = 2
        tar.addfile(again, io.BytesIO(b"[]"))
    with pytest.raises(InspectError, match=r"it holds 2 of manifest\.json"):
        inspect_image(f"docker-archive:{tmp_path / 'good.tar'}")


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


def pax(text: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header extension with that text."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = kind, len(text)
    return info.tobuf(tarfile.USTAR_FORMAT) + text + bytes(-len(text) % 512)


def record(key: str, value: bytes) -> bytes:
    line = f" {key}=".encode() + value + b"\n"
    return next(b"%d" % n + line for n in range(len(line), len(line) + 20) if len(b"%d" % n + line) == n)


END = tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT) + bytes(1024)


@pytest.mark.parametrize(
    ("plain", "match"),
    [
        (pax(record("comment", b"x" * (64 << 20))) + END, "headers of more than"),
        (pax(b"1" * (64 << 20), tarfile.GNUTYPE_LONGNAME) + END, "headers of more than"),
        (b"".join(pax(record("comment", b"x")) for _ in range(1500)) + END, "more than one extension"),
        (b"".join(pax(record(f"k{n}", b"x"), tarfile.XGLTYPE) + END[:512] for n in range(99)) + END, "global headers"),
        (pax(record("GNU.sparse.map", b"0,1,9,1") + record("GNU.sparse.size", b"99999999999")) + END, "sparse"),
    ],
    ids=["pax", "long name", "a chain of them", "global", "sparse"],
)
def test_a_huge_header_does_not_fill_memory(tmp_path: Path, plain: bytes, match: str) -> None:
    write_layout(tmp_path, Picture([plain]))
    tracemalloc.start()
    try:
        with pytest.raises(InspectError, match=match):
            inspect_image(f"oci:{tmp_path}")
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def test_a_saved_image_whose_own_headers_are_huge(tmp_path: Path) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 30
    with (tmp_path / "x.tar").open("wb") as stream:
        stream.write(info.tobuf(tarfile.USTAR_FORMAT))
        stream.truncate(2 << 30)  # a hole
    with pytest.raises(InspectError, match="it has a header of 1073741824 B"):
        inspect_image(f"docker-archive:{tmp_path / 'x.tar'}")


def test_a_good_header_extension_is_read(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number in range(70):
            tar.addfile(tarfile.TarInfo(f"{'long/' * 60}{number}"))
    assert len(merged(tmp_path, stream.getvalue() + b"\0" * 10_000_000).entries) == 70


def test_members_and_kept_texts_are_counted_over_all_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "MAX_MEMBERS", 5)
    few, more = (layer_tar({f"{name}{n}": Node() for n in range(3)}) for name in ("a", "b"))
    merged(tmp_path / "few", few)
    with pytest.raises(InspectError, match="more than 5 members"):
        merged(tmp_path / "many", few, more)
    monkeypatch.setattr(layers, "MAX_MEMBERS", 100)
    monkeypatch.setattr(layers, "MAX_KEPT", 1000)
    texts = [layer_tar({f"x{n}.dist-info/RECORD": Node(bytes(600))}) for n in range(2)]
    merged(tmp_path / "one", texts[0])
    with pytest.raises(InspectError, match="sum to more than 1000 B"):
        merged(tmp_path / "two", *texts)


def member(name: str, patch: Mapping[int, bytes] = {}, **more: object) -> bytes:
    """The header of an empty member, some of its bytes changed, with a checksum that fits."""
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for start, data in patch.items():
        block[start : start + len(data)] = data
    block[148:156] = b"        "
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    ("plain", "match"),
    [
        (member("a", {100: b"zzzz"}) + END, "it is cut|cannot be read|numbers"),
        (member("x") + member("a", {136: b"\x90"}) + END, "its numbers are no plain octal"),
        (member("a", {100: b"\0004755\0"}) + END, "its numbers are no plain octal"),
        (member("x", {345: b"opt/spark"}) + END, "its name goes on where only some look"),
        (pax(record("path", b"")) + END, "empty header extension"),
        (pax(record("path", b"x"), tarfile.XGLTYPE) + pax(record("mtime", b"1")) + END, "global headers"),
        (pax(record("path", b"x")) + pax(record("mtime", b"1")) + END, "more than one extension"),
        (pax(record("path", b"x")) + pax(b"y\0", tarfile.GNUTYPE_LONGNAME) + END, "more than one extension"),
        (pax(record("path", b"x"), tarfile.SOLARIS_XHDTYPE) + END, "more than one extension"),
        (pax(record("GNU.sparse.name", b"x")) + END, "sparse"),
        (pax(b"share/\0", tarfile.GNUTYPE_LONGNAME) + member("x", {156: b"\0"}) + END, "its kind is not said"),
        (pax(record("path", b"share/")) + member("x", {156: b"\0"}) + END, "its kind is not said"),
        (member("x") + member("a", {148: b"7"})[:148] + b"1234567 " + bytes(356) + END, "cannot be read, with more"),
    ],
    ids=[
        "number",
        "binary",
        "mode",
        "prefix",
        "empty",
        "global",
        "two",
        "gnu",
        "solaris",
        "sparse",
        "kind",
        "pax-kind",
        "checksum",
    ],
)
def test_a_header_that_readers_take_in_two_ways_is_refused(tmp_path: Path, plain: bytes, match: str) -> None:
    """What this reader took for one file a runtime would unpack as another, or as more."""
    with pytest.raises(InspectError, match=match):
        merged(tmp_path, plain)


def test_headers_as_tools_write_them_are_read(tmp_path: Path) -> None:
    longer = "long/" * 30
    gnu = pax(b"target\0", tarfile.GNUTYPE_LONGLINK) + pax(f"{longer}a\0".encode(), tarfile.GNUTYPE_LONGNAME)
    comment = pax(record("comment", b"0" * 40), tarfile.XGLTYPE)
    ustar = tarfile.TarInfo(f"{longer}b").tobuf(tarfile.USTAR_FORMAT)
    last = pax(record("path", b"c") + record("SCHILY.xattr.user.x", b"")) + END
    plain = comment + gnu + member("x", type=tarfile.SYMTYPE) + ustar + last
    assert set(merged(tmp_path, plain).entries) == {f"{longer}a", f"{longer}b", "c"}


def test_a_variable_that_is_set_twice_is_refused(tmp_path: Path) -> None:
    write_layout(tmp_path, Picture([END], {"Env": ["LD_PRELOAD=/evil.so", "LD_PRELOAD="]}))
    with pytest.raises(InspectError, match="sets a variable twice"):
        inspect_image(f"oci:{tmp_path}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
INDEX_KEYS = ("annotations", "mediaType", "digest", "size", "platform", "artifactType")
MANIFEST_KEYS = ("annotations", "config", "layers")
CONFIG_KEYS = ("architecture", "os", "config", "rootfs", "history", "created")
RUN_KEYS = ("Env", "Labels", "Entrypoint", "Cmd", "Healthcheck", "User")


@pytest.mark.parametrize("where", ["index", "manifest", "config", "run", "saved"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_json_of_any_shape_is_read_or_refused(tmp_path: Path, data: st.DataObject, where: str) -> None:
    """Each table of an image with some of its keys replaced by anything: an answer, or an InspectError."""
    keys = {"index": INDEX_KEYS, "manifest": MANIFEST_KEYS, "config": CONFIG_KEYS, "run": RUN_KEYS}.get(where, ())
    keys = keys or ("Config", "Layers", "RepoTags")
    wrong = data.draw(st.dictionaries(st.sampled_from(keys), JSON, min_size=1, max_size=3))
    plain = layer_tar({"a": Node(b"x")})
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    with contextlib.suppress(InspectError):
        facts = inspect_image(spoilt(folder, where, wrong, plain))
        assert image_text(facts)
        assert json.dumps(image_json(facts))


def spoilt(folder: Path, where: str, wrong: Mapping[str, object], plain: bytes) -> str:
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    config = json.loads(config_of(Picture([plain], {"Env": ["A=b"], "Labels": {"l": "m"}})))
    config |= wrong if where == "config" else {}
    config["config"] = {**config["config"], **wrong} if where == "run" else config["config"]
    if where == "saved":
        listed = [{"Config": "c.json", "Layers": ["l.tar"], **wrong}]
        members = {"c.json": dump(config), "l.tar": plain, "manifest.json": dump(listed)}
        (folder / "image.tar").write_bytes(layer_tar({name: Node(body) for name, body in members.items()}))
        return f"docker-archive:{folder / 'image.tar'}"
    manifest = {"config": put(folder, dump(config), CONFIG), "layers": [put(folder, plain, LAYER)], "annotations": {}}
    top = put(folder, dump({**manifest, **(wrong if where == "manifest" else {})}), MANIFEST)
    top = {**top, "annotations": {}, **(wrong if where == "index" else {})}
    (folder / "index.json").write_bytes(dump({"schemaVersion": 2, "manifests": [top]}))
    return f"oci:{folder}"


@pytest.mark.parametrize("wrong", [{"Env": 5}, {"Labels": []}, {"Healthcheck": 1}, {"Cmd": {}}])
def test_a_config_of_another_shape_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    write_layout(tmp_path, Picture([layer_tar({})], wrong))
    with pytest.raises(InspectError, match="the config's"):
        inspect_image(f"oci:{tmp_path}")


@pytest.mark.parametrize(
    ("where", "key"),
    [("manifest", "Layers"), ("run", "user"), ("run", "env"), ("config", "rootFS"), ("config", "Config"),
     ("index", "MediaType"), ("saved", "layers")],
)  # fmt: skip
def test_a_field_that_runtimes_read_by_another_case_is_refused(tmp_path: Path, where: str, key: str) -> None:
    """Go takes `Layers` for `layers`, and the last of both; Python takes the exact one."""
    with pytest.raises(InspectError, match=r"but for its case|is read as"):
        inspect_image(spoilt(tmp_path, where, {key: []}, layer_tar({"a": Node(b"x")})))


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    write_layout(tmp_path, Picture([layer_tar({})]))
    index = tmp_path / "index.json"
    index.write_bytes(index.read_bytes().replace(b'{"manifests"', b'{"manifests": [], "manifests"'))
    with pytest.raises(InspectError, match="a key comes twice"):
        inspect_image(f"oci:{tmp_path}")


def test_labels_and_annotations_have_any_keys(tmp_path: Path) -> None:
    free = {"env": "1", "Env": "2", "layers": "3", "Layers": "4"}
    write_layout(tmp_path, Picture([layer_tar({})], {"Labels": free}, annotations=free))
    facts = inspect_image(f"oci:{tmp_path}")
    assert (facts.labels, facts.annotations) == (free, free)


HARD = Node(kind=tarfile.LNKTYPE, target="p/a")
SMALL, LARGE = Node(b"/a\n"), Node(b"#" * ((16 << 20) + 1))


@pytest.mark.parametrize(
    "twice",
    [[("p/b", HARD), ("p/b", Node(b"y"))], [("p/b", Node(b"y")), ("p/b", HARD)],
     [("etc/ld.so.conf", SMALL), ("etc/ld.so.conf", LARGE)]],
    ids=["link then file", "file then link", "a larger one"],
)  # fmt: skip
def test_a_path_that_comes_twice_in_a_layer_is_refused(tmp_path: Path, twice: list[tuple[str, Node]]) -> None:
    with pytest.raises(InspectError, match=r"a layer holds '.*' twice"):
        merged(tmp_path, layer_tar([("p", FOLDER), ("p", FOLDER), ("p/a", Node(b"x")), *twice]))


def test_a_kept_text_gives_way_to_a_link_to_one_that_is_not(tmp_path: Path) -> None:
    low = layer_tar({"etc/ld.so.preload": Node(b""), "opt/x": Node(b"/evil.so")})
    high = layer_tar({"etc/ld.so.preload": Node(kind=tarfile.LNKTYPE, target="opt/x")})
    assert merged(tmp_path, low, high).text("etc/ld.so.preload") is None


@pytest.mark.parametrize("spoil", [lambda b: b + b"behind it", lambda b: b[:-8] + bytes(4) + b[-4:]])
def test_bytes_behind_a_layer_and_a_wrong_sum_are_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes]
) -> None:
    good = layouts.packed
    monkeypatch.setattr(layouts, "packed", lambda plain, how: spoil(good(plain, how)))
    write_layout(tmp_path, Picture([layer_tar({"a": Node(b"x")})]))
    with pytest.raises(InspectError, match="cannot be read"):
        inspect_image(f"oci:{tmp_path}")


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
