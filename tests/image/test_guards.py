"""Each thing that an image may not be, in a small real image that is exactly that."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from builder.context import Context
from builder.errors import InspectError, RecipeError, UsageError
from builder.inspect.oci import ContainerFacts
from builder.verify import run_verb
from builder.verify.image import Installed, Wanted, image_findings, installed_of, pinned, search_path
from tests.image.conftest import BASE_DIGEST, ELF, SITE, X86, Inspect
from tests.image.layouts import FOLDER, Node, Picture, layer_tar, link, write_layout
from tests.publish.wheels import AARCH64, build_wheel

STUB = Node(ELF, 0o755)


def rules(facts: ContainerFacts, wanted: Wanted | None = None) -> set[str]:
    findings = image_findings(facts, wanted or Wanted())
    assert all(finding.message and finding.remedy for finding in findings)
    return {finding.rule for finding in findings}


def layers(facts: ContainerFacts) -> tuple[str, ...]:
    return tuple(layer.diff_id for layer in facts.layers)


def test_a_good_image_has_no_findings(image: Inspect) -> None:
    facts = image()
    assert rules(facts, Wanted(bases=(BASE_DIGEST,), base_layers=layers(facts))) == set()


# -- CASES 14 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        {"usr/lib/aarch64-linux-gnu/libcuda.so.1": STUB},
        {"usr/lib/libcuda.so": STUB},
        {"usr/lib64/libcuda.so.580.95.05": Node()},  # what a container runtime leaves behind in a committed image
        {"lib": link("usr/lib"), "usr/lib/libcuda.so.1": STUB},
        {"usr/lib/aarch64-linux-gnu/libcuda.so.1": link("/opt/stubs/libcuda.so")},
        {"usr/local/lib/libcuda.so.1": STUB},
        {"etc/ld.so.conf.d/x.conf": Node(b"/opt/cuda/stubs\n"), "opt/cuda/stubs/libcuda.so.1": STUB},
        {"usr/lib/glibc-hwcaps/sve/libcuda.so.1": STUB},
        {
            "etc/ld.so.conf": Node(b"include\t/none /etc/more/*.conf\n"),
            "etc/more/x.conf": Node(b"/o\n"),
            "o/libcuda.so": STUB,
        },
        {"etc/ld.so.cache": Node(b"glibc-ld.so.cache1.1\0libcuda.so.1\0/opt/stubs/libcuda.so.1\0")},
    ],
    ids=lambda files: next(iter(files)),
)
def test_a_libcuda_where_the_loader_looks(image: Inspect, files: Mapping[str, Node]) -> None:
    assert rules(image(files)) == {"image-libcuda"}


def test_settings_of_the_loader_that_are_not_read(image: Inspect) -> None:
    files = {"etc/ld.so.conf": Node(b"include /opt/x/*\n"), "opt/x/paths": Node(b"/opt/stubs\n")}
    assert rules(image(files)) == {"image-libcuda"}


@pytest.mark.parametrize(
    ("name", "rule"),
    [("ld.so.preload", "image-preload"), ("ld.so.conf", "image-libcuda"), ("ld.so.cache", "image-libcuda")],
)
def test_settings_of_the_loader_behind_a_link(image: Inspect, name: str, rule: str) -> None:
    assert rule in rules(image({f"etc/{name}": link("/opt/x"), "opt/x": Node(b"/evil\n")}))


def test_a_cache_behind_a_link_is_read(image: Inspect) -> None:
    cache = Node(b"glibc-ld.so.cache1.1\0libcuda.so.1\0/opt/stubs/libcuda.so.1\0")
    facts = image({"etc/ld.so.cache": link("cache.conf"), "etc/cache.conf": cache})
    (finding,) = image_findings(facts, Wanted())
    assert finding.where == "/opt/stubs/libcuda.so.1"


def test_a_semicolon_parts_folders_too(image: Inspect) -> None:
    facts = image(config={"Env": ["LD_LIBRARY_PATH=/first;/second", "TRITON_PTXAS_PATH=/opt/spark/bin/ptxas"]})
    assert list(search_path(facts))[:2] == ["/first", "/second"]


def test_a_libcuda_on_the_variable_path(image: Inspect) -> None:
    config = {"Env": ["LD_LIBRARY_PATH=/x:/usr/local/cuda/lib64/stubs", "TRITON_PTXAS_PATH=/opt/spark/bin/ptxas"]}
    (finding,) = image_findings(image({"usr/local/cuda/lib64/stubs/libcuda.so.1": STUB}, config), Wanted())
    assert finding.where == "/usr/local/cuda/lib64/stubs/libcuda.so.1"
    assert "ENV LD_LIBRARY_PATH" in finding.message


def test_a_stub_that_nobody_loads_is_no_finding(image: Inspect) -> None:
    assert rules(image({"usr/local/cuda/lib64/stubs/libcuda.so": STUB})) == set()


@pytest.mark.parametrize(
    ("files", "config"),
    [
        ({"etc/ld.so.conf.d/0.conf": Node(b"/usr/local/cuda-13.0/compat\n")}, {}),
        ({}, {"Env": ["LD_LIBRARY_PATH=/usr/local/cuda/compat", "TRITON_PTXAS_PATH=/opt/spark/bin/ptxas"]}),
        ({"opt/c": link("/usr/local/cuda/compat"), "etc/ld.so.conf.d/0.conf": Node(b"/opt/c\n")}, {}),
    ],
)
def test_a_compat_folder_where_the_loader_looks(
    image: Inspect, files: Mapping[str, Node], config: Mapping[str, object]
) -> None:
    assert rules(image(files, config)) == {"image-compat"}


@pytest.mark.parametrize("text", ["nvidia/cuda:13.0.2-runtime-ubuntu24.04", "docker://x/y:latest", "x@sha256:12", "x"])
def test_a_base_by_tag_alone(text: str) -> None:
    with pytest.raises(RecipeError, match="is not pinned by digest"):
        pinned(text)


def test_a_base_by_digest_may_have_a_tag_too() -> None:
    assert pinned(f"docker://nvidia/cuda:13@{BASE_DIGEST}") == ("nvidia/cuda:13", BASE_DIGEST)


@pytest.mark.parametrize("said", ["", "nvidia/cuda:13.0.2", "sha256:1"])
def test_an_image_that_names_its_base_by_tag_alone(image: Inspect, said: str) -> None:
    labels = {"org.opencontainers.image.base.digest": said} if said else {}
    assert rules(image(config={"Labels": labels})) == {"image-base"}


def test_another_base_than_the_pinned_one(image: Inspect) -> None:
    facts = image()
    assert rules(facts, Wanted(bases=("sha256:" + "c" * 64,), base_layers=layers(facts))) == {"image-base"}
    assert rules(facts, Wanted(bases=(BASE_DIGEST,), base_layers=("sha256:" + "d" * 64,))) == {"image-base"}


def test_a_base_that_is_only_said(image: Inspect) -> None:
    (finding,) = image_findings(image(), Wanted(bases=(BASE_DIGEST,)))
    assert finding.rule == "image-base"
    assert "is only what it says" in finding.message
    assert "base=oci:PATH" in finding.remedy


# -- the others ---------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["", "root", "0", "0:0", "nobody-here", "root:root", "²", "9" * 5000])
def test_an_image_that_runs_as_root(image: Inspect, user: str) -> None:
    assert rules(image(config={"User": user})) == {"image-user"}


def test_a_user_by_name_is_looked_up(image: Inspect) -> None:
    assert rules(image(config={"User": "spark"})) == set()


def test_another_platform_and_programs_of_another_machine(image: Inspect) -> None:
    assert "image-platform" in rules(image(architecture="amd64"))
    assert rules(image({"usr/bin/tool": Node(X86, 0o755)})) == {"image-platform"}
    assert rules(image({"opt/data/sample.bin": Node(X86)})) == set()


@pytest.mark.parametrize(
    ("files", "config"),
    [
        ({}, {"Env": []}),
        ({"opt/spark/bin/ptxas": None}, {}),
        ({"opt/spark/bin/ptxas": Node(ELF, 0o644)}, {}),
        ({"opt/spark/bin/ptxas": Node(b"#!/bin/sh\n", 0o755)}, {}),
    ],
)
def test_no_ptxas_for_triton(image: Inspect, files: Mapping[str, Node | None], config: Mapping[str, object]) -> None:
    assert rules(image(files, config)) == {"image-ptxas"}


def test_triton_without_the_compiler_that_it_calls(image: Inspect) -> None:
    empty = base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).rstrip(b"=")
    record = Node(b"triton/__init__.py,sha256=" + empty + b",0\nt-1.dist-info/RECORD,,\n")
    triton = {f"{SITE}/triton/__init__.py": Node(b""), f"{SITE}/t-1.dist-info/RECORD": record}
    gcc, header = {"usr/bin/gcc": Node(ELF, 0o755)}, {"usr/include/python3.12/Python.h": Node(b"")}
    assert rules(image(triton)) == {"image-compiler"}
    assert rules(image({**triton, **gcc})) == {"image-compiler"}
    assert rules(image({**triton, **header})) == {"image-compiler"}
    assert rules(image({**triton, **gcc, **header})) == set()


def test_what_starts_it_and_what_watches_it(image: Inspect) -> None:
    assert rules(image(config={"Entrypoint": None})) == {"image-entrypoint"}
    assert rules(image({"opt/spark/bin/entrypoint": Node(b"x")})) == {"image-entrypoint"}
    assert rules(image(config={"Healthcheck": None})) == {"image-health"}
    assert rules(image(config={"Healthcheck": {"Test": ["NONE"]}})) == {"image-health"}


@pytest.mark.parametrize("name", ["LD_AUDIT", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"])
def test_a_variable_that_brings_code(image: Inspect, name: str) -> None:
    env = [f"{name}=/x", "PATH=/usr/bin", "TRITON_PTXAS_PATH=/opt/spark/bin/ptxas"]
    assert rules(image(config={"Env": env})) == {"image-preload"}


def test_what_is_loaded_before_all_else(image: Inspect) -> None:
    assert rules(image({"etc/ld.so.preload": Node(b"/x.so\n")})) == {"image-preload"}


def test_what_anyone_may_change(image: Inspect) -> None:
    assert rules(image({"opt/loose": Node(b"", 0o666)})) == {"image-writable"}
    assert rules(image({"tmp": Node(mode=0o1777, kind=FOLDER.kind)})) == set()


def test_labels_that_the_recipe_asks_for(image: Inspect) -> None:
    assert rules(image(), Wanted(labels={"a": "b"})) == {"image-label"}


def test_the_search_path_in_its_order(image: Inspect) -> None:
    facts = image(config={"Env": ["LD_LIBRARY_PATH=/first:/second", "TRITON_PTXAS_PATH=/opt/spark/bin/ptxas"]})
    assert list(search_path(facts))[:4] == ["/first", "/second", "/usr/local/lib", "/lib/aarch64-linux-gnu"]


# -- wheels -------------------------------------------------------------------------------------


def installed(tmp_path: Path) -> tuple[dict[str, Node], Installed]:
    """A wheel's files as an installer leaves them."""
    path = build_wheel(tmp_path, "demo", "1.0", AARCH64, payload=b"kernels", requires_python=">=3.9")
    wheel = installed_of(path)
    with zipfile.ZipFile(path) as archive:
        nodes = {f"{SITE}/{name}": Node(archive.read(name)) for name in archive.namelist()}
    return nodes, wheel


def test_a_wheel_as_it_was_verified(image: Inspect, tmp_path: Path) -> None:
    nodes, wheel = installed(tmp_path / "w")
    assert rules(image(nodes), Wanted(wheels=(wheel,))) == set()


def test_a_file_that_was_changed_after_the_install(image: Inspect, tmp_path: Path) -> None:
    nodes, wheel = installed(tmp_path / "w")
    nodes[f"{SITE}/demo/payload.bin"] = Node(b"other")
    findings = image_findings(image(nodes), Wanted(wheels=(wheel,)))
    assert {finding.rule for finding in findings} == {"image-record", "image-wheel"}
    assert all("demo/payload.bin" in finding.message for finding in findings)


def test_a_change_that_also_mends_record_is_still_not_the_verified_wheel(image: Inspect, tmp_path: Path) -> None:
    nodes, wheel = installed(tmp_path / "w")
    record = f"{SITE}/demo-1.0.dist-info/RECORD"
    old, new = (
        base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for data in (b"kernels", b"swapped")
    )
    nodes[f"{SITE}/demo/payload.bin"] = Node(b"swapped")
    nodes[record] = Node(nodes[record].data.replace(old, new))
    assert rules(image(nodes)) == set()
    assert rules(image(nodes), Wanted(wheels=(wheel,))) == {"image-wheel"}


def test_a_file_that_is_gone_one_that_nobody_owns_and_a_wheel_that_is_not_there(image: Inspect, tmp_path: Path) -> None:
    nodes, wheel = installed(tmp_path / "w")
    gone = {path: node for path, node in nodes.items() if not path.endswith("payload.bin")}
    assert rules(image(gone), Wanted(wheels=(wheel,))) == {"image-record", "image-wheel"}
    assert rules(image({**nodes, f"{SITE}/extra.py": Node(b"")})) == {"image-stray"}
    assert rules(image(), Wanted(wheels=(wheel,))) == {"image-wheel"}


def test_a_record_that_is_no_table(image: Inspect, tmp_path: Path) -> None:
    assert "image-record" in rules(image({f"{SITE}/x-1.dist-info/RECORD": Node(b"a\rb,,\n")}))
    bad = tmp_path / "bad-1.0-py3-none-any.whl"
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("bad-1.0.dist-info/RECORD", "a\rb,,\n")
    with pytest.raises(InspectError, match="no readable RECORD"):
        installed_of(bad)


# -- the verb -----------------------------------------------------------------------------------


def test_the_verb_judges_an_image(context: Context, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    write_layout(tmp_path / "bad", Picture([layer_tar({"usr/lib/libcuda.so.1": STUB})]))
    document, text, good = run_verb([f"oci:{tmp_path / 'bad'}"], {}, context, root)
    assert not good
    assert {"image-libcuda", "image-user", "image-base"} <= {f["rule"] for f in document["images"][0]["findings"]}
    assert "findings" in text
    with pytest.raises(UsageError, match="is no image"):
        run_verb(["x.whl"], {"image": f"oci:{tmp_path / 'bad'}"}, context, root)
    with pytest.raises(UsageError, match="takes no html="):
        run_verb([f"oci:{tmp_path / 'bad'}"], {"html": "x"}, context, root)
    with pytest.raises(UsageError, match="no wheels to hold the image against"):
        run_verb([], {"image": f"oci:{tmp_path / 'bad'}", "recipe": "aeon7", "wheels": str(tmp_path)}, context, root)
