"""CASE 8 and the rest of a wheel as a file: names, metadata, parts, patches, size."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from builder.patches.probe import parse_probe
from builder.recipe import load
from builder.supply import RECORD_NAME, SBOM_NAME, sbom
from builder.verify import Expectations, expectations_for, for_device
from builder.verify.expect import Exempt, PatchProbes
from builder.verify.wheelrules import installed_paths
from tests.supply.records import record
from tests.verify.conftest import ROOT, Judge, MakeWheel, only, rules, sample


def test_renamed_by_hand(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    path = make_wheel()
    renamed = path.with_name(path.name.replace("1.0", "1.0+cu130"))
    shutil.copy(path, renamed)
    assert "the file name says 1.0+cu130" in only(judge_file(renamed, wanted), "wheel-version")


def test_two_dist_info_folders_and_a_wrong_record(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo-0.9.dist-info/METADATA": b"Name: demo\n"})
    assert "dist-info" in rules(judge_file(path, wanted))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("demo/late.py", b"")
    assert {"dist-info", "record"} <= set(rules(judge_file(path, wanted)))


def test_the_wheel_of_another_package_or_version(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    assert "it is demo, not vllm" in only(judge_file(make_wheel(), replace(wanted, name="vllm")), "wheel-name")
    message = only(judge_file(make_wheel(), replace(wanted, version="2.0")), "wheel-version")
    assert message == "it is version 1.0, the recipe pins 2.0"


@pytest.mark.parametrize(
    ("python", "good"),
    [
        *(("cp312-cp312", True), ("cp38-abi3", True), ("py3-none", True), ("py2.py3-none", True)),
        *(("cp313-cp313", False), ("cp312-cp312t", False), ("cp313-abi3", False), ("pp312-pypy312_pp73", False)),
    ],
)
def test_the_wheel_of_another_python(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, python: str, *, good: bool
) -> None:
    path = make_wheel(tag=f"{python}-manylinux_2_34_x86_64")
    assert judge_file(path, for_device("12.1")).good
    verdict = judge_file(path, replace(wanted, archs=()))
    if good:
        assert verdict.good, verdict.findings
    else:
        assert only(verdict, "wheel-tags") == f"its tags are for {python}, which Python 3.12 does not take"


def test_the_python_is_the_recipes() -> None:
    recipe = load("aeon7", ROOT)
    assert expectations_for(recipe, recipe.package("vllm")).python == recipe.target.python == "3.12"


def test_a_local_version_is_the_pinned_version(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    assert judge_file(make_wheel(), replace(wanted, version="1.0+x")).good


def test_a_file_that_an_installer_refuses(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    """Its name in front of its bytes is not the directory's: our reader goes by the directory, zipfile by both."""
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo/a.py": b""})
    data = path.read_bytes()
    assert data.count(b"demo/a.py") == 2
    path.write_bytes(data.replace(b"demo/a.py", b"demo/b.py", 1))
    assert "refuses to unpack" in only(judge_file(path, wanted), "record")
    path.write_bytes(data.replace(b"demo-1.0.dist-info/METADATA", b"demo-1.0.dist-info/METADOTA", 1))
    assert "METADATA" in only(judge_file(path, wanted), "record")


@pytest.mark.parametrize("version", ["one", "1.0.x!", "9" * 5000, ""])
def test_a_version_that_is_none(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, tmp_path: Path, version: str
) -> None:
    made = make_wheel(papers("clean") | FILES)
    path = tmp_path / "demo.whl"
    with zipfile.ZipFile(made) as before, zipfile.ZipFile(path, "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(b"Version: 1.0\nReq", f"Version: {version}\nReq".encode()))
    assert {"wheel-name", "wheel-version", "build-record"} <= set(rules(judge_file(path, wanted)))


def test_a_requirement_of_torch_beyond_all_numbers(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    verdict = judge_file(make_wheel(TORCH, requires=f"torch=={'9' * 5000}"), wanted)
    assert "it is built against torch 2.11.0" in only(verdict, "torch")


TORCH = {"demo/_C.so": sample("launch_zstd.so").replace(b"libgcc_s.so.1", b"libtorch.so\0\0")}


@pytest.mark.parametrize(
    "said",
    [
        *("torch==2.11.0", "torch==2.11.*", "torch == 2.11.0 ; python_version >= '3.9'"),
        "torch==2.11.0; platform_machine == 'x86_64' and sys_platform == 'linux'",
    ],
)
def test_metadata_that_pins_the_torch_it_is_linked_to(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, said: str
) -> None:
    assert judge_file(make_wheel(TORCH, requires=said), wanted).good


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("numpy", "METADATA says nothing of it"),
        ("torch", "METADATA says torch of it"),
        ("torch>=2.10", "METADATA says torch>=2.10 of it"),
        ("torch==2.*", "METADATA says torch==2.* of it"),
        ('torch==2.11.0; extra == "test"', 'METADATA says torch==2.11.0; extra == "test" of it'),
        ("torch==2.11.0; python_version < '3.12'", "python_version < '3.12' of it"),
        ("torch==2.11.0; platform_machine == 'aarch64'", "platform_machine == 'aarch64' of it"),
        (f"torch==2.11.0; python_version > '{'9' * 5000}'", "of it"),
        ("torch==2.10.0", "METADATA asks for torch==2.10.0, it is built against torch 2.11.0"),
    ],
)
def test_metadata_that_does_not(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, said: str, told: str
) -> None:
    assert told in only(judge_file(make_wheel(TORCH, requires=said), wanted), "torch")


def test_what_an_extra_asks_of_torch_is_not_held_against_it(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    assert judge_file(make_wheel(requires='torch==2.10.0; extra == "old"'), wanted).good


def test_a_wheel_without_torch_need_not_pin_it(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    assert judge_file(make_wheel(requires="torch"), wanted).good
    assert judge_file(make_wheel(requires="numpy"), wanted).good


def test_a_part_that_is_missing(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    asked = replace(wanted, objects=(*wanted.objects, ("_moe_C", ("*/_moe_C.so",))))
    assert "the recipe asks for _moe_C" in only(judge_file(make_wheel(), asked), "component")
    asked = replace(wanted, files=("demo/*.so", "demo/third_party/*.py"))
    verdict = judge_file(make_wheel(), asked)
    assert [(f.rule, f.where) for f in verdict.findings] == [("component", "demo/third_party/*.py")]


def patched(*probes: str) -> tuple[PatchProbes, ...]:
    return (PatchProbes("demo/0001-x.patch", tuple(parse_probe(text) for text in probes)),)


def papers(state: str, file: str = "demo/0001-x.patch") -> dict[str, bytes]:
    """A build record of demo 1.0, whose one patch became `state`, and the bill that goes with it."""
    value = record("flashinfer-python")
    value["package"] |= {"name": "demo", "version": "1.0"}
    value["patches"] = [value["patches"][0] | {"file": file, "state": state}]
    folder = "demo-1.0.dist-info"
    return {f"{folder}/{RECORD_NAME}": json.dumps(value).encode(), f"{folder}/{SBOM_NAME}": sbom(value)}


FILES = {
    "demo/_C.so": sample("launch_zstd.so"),
    "demo/a.py": b"def mended():\n    pass\n",
    "flashinfer/data/csrc/k.cu": b"family\n",
}


def test_what_the_patches_expect_holds(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    series = patched("demo/a.py: def mended", "csrc/k.cu: text family", "CMakeLists.txt: text 12.1")
    assert judge_file(make_wheel(FILES), replace(wanted, patches=series)).good


@pytest.mark.parametrize("probe", ["demo/a.py: def other", "demo/b.py: def mended", "csrc/k.cu: not text family"])
def test_what_a_patch_expects_and_the_wheel_lacks(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, probe: str
) -> None:
    message = only(judge_file(make_wheel(FILES), replace(wanted, patches=patched(probe))), "patch")
    assert message == f"demo/0001-x.patch expects of it what it does not hold: 1 in all: {probe}"


def test_a_superseded_patch_promises_nothing(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    asked = replace(wanted, patches=patched("demo/a.py: def other"))
    assert judge_file(make_wheel(FILES | papers("superseded")), asked).good


@pytest.mark.parametrize("state", ["clean", "offset", "contained"])
def test_an_applied_patch_keeps_its_promise_however_the_wheel_looks(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, state: str
) -> None:
    asked = replace(wanted, patches=patched("demo/a.py: def mended", "demo/a.py: def other"))
    message = only(judge_file(make_wheel(FILES | papers(state)), asked), "patch")
    assert message.endswith("1 in all: demo/a.py: def other")
    kept = replace(wanted, patches=patched("demo/a.py: def mended"))
    assert judge_file(make_wheel(FILES | papers(state)), kept).good


def test_a_wheel_of_another_series(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    """The recipe has other patches now, and nothing else in the wheel tells."""
    asked = replace(wanted, patches=patched("demo/a.py: def mended"))
    verdict = judge_file(make_wheel(FILES | papers("clean", "demo/0002-y.patch")), asked)
    assert [(f.rule, f.message) for f in verdict.findings] == [
        ("patch", "the build record does not name these patches of the recipe: 1 in all: demo/0001-x.patch"),
        ("patch", "the build record names patches that the recipe does not have: 1 in all: demo/0002-y.patch"),
    ]


def test_an_exception_for_a_folder_does_not_excuse_the_wheel_itself(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    """What is said of the whole wheel lies in no folder; nor does what lies at its top."""
    exempt = (Exempt("demo/models/*", "patch", "a file of upstream's"), Exempt("demo/*", "bundled", "ours"))
    asked = replace(wanted, patches=patched("demo/a.py: def mended"), exempt=exempt)
    files = FILES | papers("clean", "demo/0002-y.patch") | {"libcudart.so.13": sample("nothing.so")}
    verdict = judge_file(make_wheel(files), asked)
    assert sorted(rules(verdict)) == ["bundled", "exception", "exception", "patch", "patch"]
    assert not verdict.accepted


def test_a_patch_that_was_changed_since(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    (before,) = patched("demo/a.py: def mended")
    built = json.loads(papers("clean")[f"demo-1.0.dist-info/{RECORD_NAME}"])["patches"][0]["sha256"]
    wheel = make_wheel(FILES | papers("clean"))
    assert judge_file(wheel, replace(wanted, patches=(replace(before, sha256=built),))).good
    message = only(judge_file(wheel, replace(wanted, patches=(replace(before, sha256="0" * 64),))), "patch")
    assert message.endswith("as they were before, with other digests: 1 in all: demo/0001-x.patch")


def test_a_pull_request_that_the_build_brought_is_in_no_series(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    files = FILES | papers("clean")
    name = f"demo-1.0.dist-info/{RECORD_NAME}"
    value = json.loads(files[name])
    value["patches"].append(value["patches"][0] | {"file": "pr-2520.patch"})
    files |= {name: json.dumps(value).encode(), f"demo-1.0.dist-info/{SBOM_NAME}": sbom(value)}
    assert judge_file(make_wheel(files), replace(wanted, patches=patched("demo/a.py: def mended"))).good


def test_modules_are_of_their_sources_series() -> None:
    recipe = load("aeon7", ROOT)
    wanted = expectations_for(recipe, recipe.package("flashinfer-jit-cache"), ROOT)
    source = recipe.package("flashinfer-python")
    assert [(p.file, p.sha256) for p in wanted.patches] == list(zip(source.patches, source.patch_digests, strict=True))


def test_a_damaged_record_excuses_nothing(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    asked = replace(wanted, patches=patched("demo/a.py: def other"))
    verdict = judge_file(make_wheel(FILES | {f"demo-1.0.dist-info/{RECORD_NAME}": b"{}"}), asked)
    assert sorted(rules(verdict)) == ["build-record", "patch"]


def test_a_probe_of_the_first_file_that_is_there(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    asked = replace(wanted, patches=patched("csrc/old.cu|csrc/k.cu: text families"))
    assert "csrc/old.cu|csrc/k.cu: text families" in only(judge_file(make_wheel(FILES), asked), "patch")


def test_sources_lie_elsewhere_in_the_flashinfer_wheel() -> None:
    assert installed_paths(("flashinfer/data/csrc/k.cu", "vllm/a.py")) == {
        "csrc/k.cu": "flashinfer/data/csrc/k.cu",
        "flashinfer/data/csrc/k.cu": "flashinfer/data/csrc/k.cu",
        "vllm/a.py": "vllm/a.py",
    }


def test_a_wheel_over_its_limit(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    path: Path = make_wheel()
    assert judge_file(path, replace(wanted, max_bytes=path.stat().st_size)).good
    message = only(judge_file(path, replace(wanted, max_bytes=1000)), "size")
    assert "its limit is 0 MB" in message


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"form": "2.0"}, "its Wheel-Version is 2.0; installers know 1.0"),
        ({"more": "Requires-Dist: foo bar baz\n"}, "METADATA requires what is no requirement: 1 in all: foo bar baz"),
        ({"more": "Requires-Python: <3.12\n"}, "METADATA says Requires-Python: <3.12, the recipe is for 3.12"),
        ({"more": "Requires-Python: new\n"}, "METADATA says Requires-Python: new, the recipe is for 3.12"),
    ],
)
def test_metadata_for_which_installers_refuse_a_wheel(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, changes: dict[str, str], told: str
) -> None:
    assert only(judge_file(make_wheel(**changes), wanted), "metadata") == told
