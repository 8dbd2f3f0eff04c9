"""The way that production takes: a base without Python, and one layer more for the packages that bring it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder.image import verbs
from builder.image.base import Base
from builder.image.container import containerfile, steps
from builder.image.debs import DebPackage, packages_of
from builder.image.make import Order
from builder.image.stage import own_files, stage
from builder.image.writing import Said, attach, rewrite
from builder.inspect.oci import ContainerFacts, Root, inspect_image
from builder.model import ImagePin, LockedFile
from builder.recipe import load
from builder.verify.image.places import LAYERS, Python, healthcheck
from tests.image.layouts import Node, Picture, layer_tar, write_layout

ROOT = Path(__file__).parents[2]
PY312 = Python("3.12")
PIN = ImagePin("x@sha256:" + "0" * 64, "locks/x.toml", ("gcc", "python3.12"), "20261101T000000Z")
HISTORY: tuple[dict[str, object], ...] = (
    {"created_by": "ADD rootfs", "created": "2026-01-01T00:00:00Z"},
    {"created_by": "CMD bash", "empty_layer": True},
    {"created_by": "RUN apt-get install cuda", "comment": "theirs"},
)


def built(folder: Path, *, with_packages: bool, history: tuple[dict[str, object], ...] = HISTORY) -> ContainerFacts:
    """What a tool leaves of a base of two layers, written anew as ours."""
    count = 2 + len(LAYERS) + with_packages
    write_layout(folder, Picture([layer_tar({f"f{n}": Node(bytes([n]))}) for n in range(count)], {"Env": ["A=b"]}))
    lines = steps(PIN, with_packages=with_packages)
    rewrite(folder, Said("aeon7", {"l": "m"}, {"l": "m"}, healthcheck(), lines, history))
    attach(folder, b"{}")
    return inspect_image(f"oci:{folder}:aeon7")


@pytest.mark.parametrize("with_packages", [True, False])
def test_layers_have_their_own_names_and_the_base_its_history(tmp_path: Path, *, with_packages: bool) -> None:
    facts = built(tmp_path / "image", with_packages=with_packages)
    write_layout(tmp_path / "base", Picture([layer_tar({f"f{n}": Node(bytes([n]))}) for n in range(2)]))
    base = Base("x", "sha256:1", f"oci:{tmp_path / 'base'}", inspect_image(f"oci:{tmp_path / 'base'}"))
    recipe, none = load("aeon7", ROOT), LockedFile("x", "1", "x", "", 1)
    order = Order(recipe, PIN, PY312, (), none, (), base, "arm64", tmp_path / "out", with_packages)
    names = [layer["name"] for layer in verbs._layers(order, facts)]
    assert names == ["base", "base", *(["packages"] if with_packages else []), *LAYERS]
    assert facts.history[:3] == HISTORY
    made = [str(step["created_by"]) for step in facts.history if not step.get("empty_layer")]
    assert len(made) == len(facts.layers)
    assert made[2].startswith("RUN apt-get install --snapshot 20261101T000000Z gcc" if with_packages else "COPY cuda/")
    with pytest.raises(ValueError, match="zip"):
        verbs._layers(order, built(tmp_path / "other", with_packages=not with_packages))


def test_a_base_without_a_whole_history_gets_a_line_a_layer(tmp_path: Path) -> None:
    facts = built(tmp_path / "image", with_packages=False, history=HISTORY[:2])
    assert [step["created_by"] for step in facts.history][:3] == ["base", "base", "COPY cuda/ /"]


def test_users_that_the_packages_added_stay(tmp_path: Path) -> None:
    """Where packages are installed, our user is added behind them; nothing is laid over passwd."""
    text = containerfile(PIN, PY312, "0", with_packages=True)
    _, run = text.split("\nRUN ")
    script = run.partition("\nCOPY")[0]
    line = "spark:x:10001:10001::/home/spark:/usr/sbin/nologin"
    assert f"sed -i '/^spark:/d' /etc/passwd && echo '{line}' >> /etc/passwd" in script
    assert "echo 'spark:x:10001:' >> /etc/group" in script
    assert script.index("apt-get install") < script.index("/etc/passwd")
    stage([], PY312, tmp_path / "layers")
    own_files(PY312, {}, tmp_path / "layers")
    assert not (tmp_path / "layers" / "ours" / "etc").exists()


def test_the_packages_of_a_distribution_are_read_from_dpkgs_list() -> None:
    status = (
        "Package: gcc\nStatus: install ok installed\nArchitecture: arm64\n"
        "Source: gcc-defaults (1.2)\nVersion: 4:13.2.0-7\n"
        "Description: compiler\n more of it\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: arm64\nVersion: 1\n\n"
    )
    release = 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\n'
    root = Root(texts={"var/lib/dpkg/status": status.encode(), "etc/os-release": release.encode()})
    assert packages_of(root) == (DebPackage("gcc", "4:13.2.0-7", "arm64", "gcc-defaults", "ubuntu-24.04"),)
    distroless = {"var/lib/dpkg/status.d/libc6": b"Package: libc6\nVersion: 2.39\nArchitecture: arm64\n"}
    assert packages_of(Root(texts=distroless)) == (DebPackage("libc6", "2.39", "arm64", "", ""),)
    assert packages_of(Root()) == ()


def test_the_bill_is_beside_the_image_and_not_in_its_digest(tmp_path: Path) -> None:
    facts = built(tmp_path / "image", with_packages=False)
    index = json.loads((tmp_path / "image" / "index.json").read_text())
    assert index["manifests"][0]["digest"] == facts.digest
    assert index["manifests"][1]["annotations"] == {"org.opencontainers.image.ref.name": "aeon7-sbom"}
