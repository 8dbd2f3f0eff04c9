"""A whole small image of ours, staged from real wheels, and each way in which it can be another's."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from builder.context import Context
from builder.image.stage import Part, finish, own_files, stage, take_ptxas
from builder.inspect.oci import ContainerFacts, inspect_image
from builder.model import ImagePin, LockedFile, Recipe
from builder.recipe import load
from builder.store import sha256_of
from builder.verify.image import BASE_DIGEST, Contents, Standing, Wanted, image_findings, state_of, wanted_for
from builder.verify.image.places import (
    COMMAND,
    ENTRYPOINT,
    GROUP_LINE,
    HOME,
    LAYERS,
    PREFIX,
    SBOM,
    USER_ID,
    USER_LINE,
    Python,
    environment,
    healthcheck,
)
from tests.image.conftest import ELF
from tests.image.layouts import Node, Picture, layer_tar, sha, write_layout
from tests.publish.wheels import AARCH64, build_wheel

ROOT = Path(__file__).parents[2]
PY312 = Python("3.12")
SITE = PY312.site.strip("/")
BASE = layer_tar({"usr/bin/python3.12": Node(ELF, 0o755)})
BASE_ENV = ("NVIDIA_REQUIRE_CUDA=cuda>=13.0",)
PIN = "sha256:" + "a" * 64

PTXAS = f"{PREFIX}/bin/ptxas".strip("/")
CAPABLE = {"SCHILY.xattr.security.capability": "\1\2"}

Spoil = Callable[[dict[str, bytes], dict[str, Any]], None]


@dataclass(frozen=True)
class World:
    """The image's layers by name, its config, and what is asked of it."""

    layers: Mapping[str, bytes]
    config: Mapping[str, Any]
    wanted: Wanted
    place: Path

    def findings(self, spoil: Spoil = lambda *_: None, wanted: Wanted | None = None) -> dict[str, str]:
        """Rule → message, of the image after `spoil` has been at its layers and its config."""
        layers, config = dict(self.layers), json.loads(json.dumps(self.config))
        spoil(layers, config)
        folder = self.place / f"image{len(list(self.place.iterdir()))}"
        write_layout(folder, Picture([BASE, *layers.values()], config))
        facts: ContainerFacts = inspect_image(f"oci:{folder}")
        return {f.rule: f"{f.where} {f.message}" for f in image_findings(facts, wanted or self.wanted)}


def tool_wheel(folder: Path) -> Path:
    """A wheel with an entry point, a script of its own and a data file: what an installer puts elsewhere."""
    path = build_wheel(folder, "tool", "2.0", AARCH64, payload=b"t", requires_python=">=3")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files |= {
        "tool-2.0.dist-info/entry_points.txt": b"[console_scripts]\ntool = tool:main\n",
        "tool-2.0.data/scripts/told": b"#!python\nprint('told')\n",
        "tool-2.0.data/data/share/tool.txt": b"data",
    }
    added = [name for name in files if "entry_points" in name or ".data/" in name]
    record = "tool-2.0.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in added).encode() + files[record]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def locked(path: Path, context: Context) -> LockedFile:
    name, version = path.name.split("-")[:2]
    sha256 = context.store.put_file(path).name
    return LockedFile(name, version, path.name, sha256, path.stat().st_size, ("image-aarch64",))


def tar_of(folder: Path) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder).as_posix(), recursive=False, filter=of_root)
    return stream.getvalue()


def of_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    return info


@pytest.fixture
def recipe() -> Recipe:
    return load("aeon7", ROOT)


@pytest.fixture
def world(tmp_path: Path, context: Context, recipe: Recipe) -> World:
    assert recipe.image is not None
    wheels = tmp_path / "wheels"
    demo = build_wheel(wheels, "demo", "1.0", AARCH64, payload=ELF, requires_python=">=3")
    needs = [build_wheel(wheels, "torch", "2.11.0", AARCH64, payload=b"t", requires_python=">=3"), tool_wheel(wheels)]
    nvcc = wheels / "nvidia_cuda_nvcc-13.0.88-py3-none-any.whl"
    with zipfile.ZipFile(nvcc, "w") as archive:
        archive.writestr("nvidia/cu13/bin/ptxas", ELF)
    into = tmp_path / "layers"
    parts = [Part(path.name.partition("-")[0], path, path.name) for path in needs]
    stage([Part("demo", demo, demo.name, ours=True), *parts], PY312, into)
    take_ptxas(nvcc, into)
    own_files(PY312, {"passwd": f"root:x:0:0::/root:/bin/sh\n{USER_LINE}\n"}, into)
    (into / "ours" / SBOM.strip("/")).parent.mkdir(parents=True)
    (into / "ours" / SBOM.strip("/")).write_text("{}")
    finish(into)
    layers = {name: tar_of(into / name) for name in LAYERS}
    layers["home"] = layer_tar({"home/spark/.cache": Node(mode=0o755, kind=tarfile.DIRTYPE, owner=10001)})
    contents = Contents(
        recipe, recipe.image, PY312, (demo,), tuple(locked(path, context) for path in needs), locked(nvcc, context)
    )
    wanted = wanted_for(contents, Standing((PIN,), (sha(BASE),), BASE_ENV), context.store, with_packages=False)
    state = state_of(contents, [sha256_of(demo)], PIN)
    config = {
        "User": USER_ID,
        "Env": [*BASE_ENV, *(f"{name}={value}" for name, value in environment(recipe.image, PY312, state).items())],
        "Entrypoint": [ENTRYPOINT],
        "Cmd": list(COMMAND),
        "WorkingDir": HOME,
        "Labels": {**wanted.labels, BASE_DIGEST: PIN},
        "Healthcheck": healthcheck(),
    }
    (tmp_path / "images").mkdir()
    return World(layers, config, wanted, tmp_path / "images")


PASSWD, ROOT_LINE = "etc/passwd", "root:x:0:0::/root:/bin/sh\n"


@pytest.mark.parametrize(
    ("change", "rule", "said"),
    [
        ({"Volumes": {"/opt/spark": {}}}, "image-entrypoint", "Volumes it is"),
        ({"StopSignal": "SIGSTOP"}, "image-entrypoint", "StopSignal it is"),
        ({"OnBuild": ["RUN x"]}, "image-entrypoint", "OnBuild it is"),
        ({"Healthcheck": {**healthcheck(), "Interval": 10**18}}, "image-health", "its times are others"),
        ({"Healthcheck": {"Test": healthcheck()["Test"]}}, "image-health", "its times are others"),
    ],
)
def test_what_a_runtime_is_told_beside(world: World, change: dict[str, object], rule: str, said: str) -> None:
    def spoil(_: dict[str, bytes], config: dict[str, Any]) -> None:
        config.update(change)

    assert said in world.findings(spoil)[rule]


def hard(target: str) -> dict[str, Any]:
    return {"type": tarfile.LNKTYPE, "linkname": target}


def put(layer: str, path: str, data: bytes, mode: int = 0o644, **more: Any) -> Spoil:  # noqa: ANN401  of a TarInfo
    """Add a member to a layer, in place of one that is there."""

    def spoil(layers: dict[str, bytes], _: dict[str, Any]) -> None:
        stream, given = io.BytesIO(), io.BytesIO(layers[layer])
        with tarfile.open(fileobj=given) as old, tarfile.open(None, "w", stream, format=tarfile.PAX_FORMAT) as tar:
            for member in (each for each in old if each.name != path):
                tar.addfile(member, old.extractfile(member) if member.isreg() else None)
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), mode
            for name, value in more.items():
                setattr(info, name, value)
            tar.addfile(info, io.BytesIO(data))
        layers[layer] = stream.getvalue()

    return spoil


def test_an_image_as_it_is_made(world: World) -> None:
    assert world.findings() == {}


@pytest.mark.parametrize(("name", "rules"), [("origin", set()), ("impure", set()), ("opaque", {"image-writable"})])
def test_what_a_rootless_builder_leaves_beside_folders(world: World, name: str, rules: set[str]) -> None:
    """Where an overlay came from gives no right; what hides the layers below is nobody's to leave."""
    attribute = {f"SCHILY.xattr.user.overlay.{name}": "y"}
    spoil = put("ours", SITE, b"", 0o755, type=tarfile.DIRTYPE, pax_headers=attribute)
    assert world.findings(spoil).keys() == rules


@pytest.mark.parametrize(
    ("spoil", "rule", "said"),
    [
        (put("deps", f"{SITE}/torch/payload.bin", b"other"), "image-wheel", "is not the locked wheel's"),
        (put("ours", ENTRYPOINT.strip("/"), b"#!/bin/sh\n", 0o755), "image-own", "bin/entrypoint"),
        (put("ours", f"{PREFIX}/bin/health".strip("/"), b"#!/bin/sh\n", 0o755), "image-own", "bin/health"),
        (put("cuda", f"{PREFIX}/bin/ptxas".strip("/"), ELF + b"x", 0o755), "image-own", "bin/ptxas"),
        (put("ours", f"{PREFIX}/bin/python3".strip("/"), b"#!/bin/sh\n", 0o755), "image-own", "bin/python3"),
        (put("ours", f"{PREFIX}/pyvenv.cfg".strip("/"), b"home = /x\n"), "image-own", "pyvenv.cfg"),
        (put("deps", f"{PREFIX}/bin/tool".strip("/"), b"#!/bin/sh\n", 0o755), "image-wheel", "bin/tool"),
        (put("deps", f"{PREFIX}/bin/told".strip("/"), b"#!/bin/sh\n", 0o755), "image-wheel", "bin/told"),
        (put("deps", f"{PREFIX}/share/tool.txt".strip("/"), b"x"), "image-wheel", "share/tool.txt"),
        (put("deps", f"{PREFIX}/bin/more".strip("/"), b"#!/bin/sh\n", 0o755), "image-stray", "opt/spark/bin/more"),
        (put("home", "home/spark/.cache/pycache/x.pyc", b"x"), "image-stray", "pycache/x.pyc"),
        (put("deps", "usr/bin/python3.12", ELF, 0o755), "image-layer", "usr/bin/python3.12"),
        (put("ours", "usr/bin/.wh.python3.12", b""), "image-layer", "usr/bin/python3.12 is taken away"),
        (put("deps", "usr/.wh..wh..opq", b""), "image-layer", "usr/bin/python3.12 is taken away"),
        (put("cuda", PTXAS, ELF, 0o4755), "image-writable", "bin/ptxas has another owner, more rights"),
        (put("cuda", PTXAS, ELF, 0o755, pax_headers=CAPABLE), "image-writable", "bin/ptxas has"),
        (put("cuda", PTXAS, ELF, 0o755, uid=10001), "image-writable", "bin/ptxas has"),
        (put("ours", SITE, b"", 0o1777, type=tarfile.DIRTYPE), "image-writable", "site-packages has"),
        (put("ours", "etc", b"", 0o755, type=tarfile.DIRTYPE, uid=10001), "image-writable", "etc has"),
        (put("ours", f"{SITE}/demo/x", b"", 0o4755, **hard("usr/bin/python3.12")), "image-layer", "usr/bin/python3.12"),
        (put("ours", f"{SITE}/demo/x", b"", 0o4755, **hard(PTXAS)), "image-writable", "bin/ptxas"),
        (put("ours", PASSWD, f"{ROOT_LINE}toor::0:0::/:/bin/sh\n{USER_LINE}\n".encode()), "image-user", "toor::0:0"),
        (put("ours", PASSWD, f"{ROOT_LINE}toor:x:0:0::/:/bin/sh\n{USER_LINE}\n".encode()), "image-user", "toor:x:0"),
        (put("ours", PASSWD, f"root::0:0::/root:/bin/sh\n{USER_LINE}\n".encode()), "image-user", "root::0:0"),
        (put("ours", PASSWD, b"", type=tarfile.SYMTYPE, linkname="/home/spark/x"), "image-user", "no plain file"),
        (put("ours", "etc/group", f"root:x:0:spark\n{GROUP_LINE}\n".encode()), "image-user", "root:x:0:spark"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("image") else "",
)
def test_what_is_not_as_it_was_made(world: World, spoil: Spoil, rule: str, said: str) -> None:
    found = world.findings(spoil)
    assert said in found[rule]


def test_a_project_that_nobody_locked(world: World) -> None:
    def spoil(layers: dict[str, bytes], config: dict[str, Any]) -> None:
        for path, data in (("x-1.dist-info/METADATA", b""), ("x-1.dist-info/RECORD", b"x-1.dist-info/METADATA,,\n")):
            put("deps", f"{SITE}/{path}", data)(layers, config)

    found = world.findings(spoil)
    assert "x-1.dist-info is neither in the image's lock nor a wheel of the recipe" in found["image-lock"]
    assert "x-1.dist-info/METADATA has no digest in RECORD" in found["image-record"]


def test_a_locked_project_that_is_not_there(world: World) -> None:
    wanted = replace(world.wanted, wheels=tuple(w for w in world.wanted.wheels if w.name != "tool"))
    assert "tool-2.0.dist-info" in world.findings(wanted=wanted)["image-lock"]
    without = dict(world.layers) | {"deps": layer_tar({})}
    found = replace(world, layers=without).findings()
    assert "tool-2.0" in found["image-wheel"]


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("Env", ["PATH=/tmp/bin:/usr/bin"], "image-env"),
        ("Env", [*BASE_ENV, "VLLM_PLUGINS=evil"], "image-env"),
        ("Entrypoint", ["/bin/sh", "-c", "x"], "image-entrypoint"),
        ("Cmd", ["python", "-c", "x"], "image-entrypoint"),
        ("WorkingDir", "/var", "image-entrypoint"),
        ("Healthcheck", {"Test": ["CMD", "/usr/bin/true"]}, "image-health"),
        ("User", "33:33", "image-user"),
    ],
)
def test_a_config_of_another_make(world: World, key: str, value: object, rule: str) -> None:
    def spoil(_: dict[str, bytes], config: dict[str, Any]) -> None:
        config[key] = value

    assert rule in world.findings(spoil)


@pytest.mark.parametrize("more", ["HF_ENDPOINT=https://evil", "NVIDIA_REQUIRE_CUDA=", "CC=/tmp/cc"])
def test_a_variable_that_neither_the_builder_nor_the_base_sets(world: World, more: str) -> None:
    def spoil(_: dict[str, bytes], config: dict[str, Any]) -> None:
        config["Env"] = [text for text in config["Env"] if text.partition("=")[0] != more.partition("=")[0]] + [more]

    assert set(world.findings(spoil)) == {"image-env"}


def test_other_contents_have_another_folder_for_their_bytecode(world: World) -> None:
    """All sources have one time: Python would run the bytecode of an older image for a line of the same length."""
    assert world.wanted.own is not None
    (known,) = world.wanted.own.env["PYTHONPYCACHEPREFIX"]
    contents = Contents(load("aeon7", ROOT), ImagePin("x@y", "l"), PY312, (), (), locked_file("a" * 64))
    same = state_of(contents, ["1", "2"], PIN)
    assert known.startswith(f"{HOME}/.cache/pycache/")
    assert same == state_of(contents, ["2", "1"], PIN)
    others = {
        state_of(contents, ["1", "3"], PIN),
        state_of(contents, ["1", "2"], "sha256:other"),
        state_of(replace(contents, files=(locked_file("b" * 64),)), ["1", "2"], PIN),
        state_of(replace(contents, pin=ImagePin("x@y", "l", ("gcc",), "20261101T000000Z")), ["1", "2"], PIN),
        state_of(replace(contents, pin=ImagePin("x@y", "l", ("gcc",), "20261201T000000Z")), ["1", "2"], PIN),
    }
    assert len(others - {same}) == 5


def locked_file(sha256: str) -> LockedFile:
    return LockedFile("x", "1", "x-1-py3-none-any.whl", sha256, 1, ("image-aarch64",))


@pytest.mark.parametrize("label", ["wheels", "patches", "commits", "recipe.digest"])
def test_a_label_that_says_something_else(world: World, label: str) -> None:
    def spoil(_: dict[str, bytes], config: dict[str, Any]) -> None:
        config["Labels"][f"io.github.spark-wheels.{label}"] = "{}"

    assert set(world.findings(spoil)) == {"image-label"}


def test_layers_too_many_and_the_one_of_packages(world: World) -> None:
    def spoil(layers: dict[str, bytes], _: dict[str, Any]) -> None:
        packages = layer_tar({"usr/bin/gcc": Node(ELF, 0o755)})
        rest = dict(layers)
        layers.clear()
        layers.update({"packages": packages, **rest})

    assert "7 layers lie on the base's 1, expected 6" in world.findings(spoil)["image-layer"]
    assert world.wanted.own is not None
    wanted = replace(world.wanted, own=replace(world.wanted.own, packages=True))
    assert world.findings(spoil, wanted) == {}
    assert world.findings(wanted=wanted) == {}
