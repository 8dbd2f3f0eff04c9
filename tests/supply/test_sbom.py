"""The bill of materials: valid by CycloneDX's own schema, equal for equal builds, complete, and held to the record."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from builder.patches.header import read_header
from builder.supply import facts_in, facts_of, materials, sbom
from tests.supply.records import ROOT, record

PACKAGES = ("vllm", "flashinfer-python", "flashinfer-jit-cache")
SHAPES = [("vllm", False), ("vllm", True), ("flashinfer-python", False), ("flashinfer-jit-cache", False)]


def document(value: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(sbom(value))
    return read


@pytest.mark.parametrize(("package", "externals"), SHAPES)
def test_it_is_valid_by_the_official_schema_and_says_all_that_the_record_says(package: str, externals: bool) -> None:
    value = record(package, externals=externals)
    data = sbom(value)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode()) is None
    assert facts_in(data) == facts_of(value)
    assert {key for key in facts_in(data) if not key.startswith(("issues ", "wheel"))} == {
        each.key for each in materials(value)
    }


def test_the_schema_would_refuse_a_wrong_one() -> None:
    wrong = document(record())
    wrong["metadata"]["component"]["pedigree"]["patches"][0]["type"] = "ours"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(wrong)) is not None


def test_equal_records_give_equal_bytes_in_another_process() -> None:
    value = record()
    script = "import json,sys; from builder.supply import sbom; sys.stdout.buffer.write(sbom(json.load(sys.stdin)))"
    shuffled = json.dumps(dict(reversed(list(value.items()))))
    done = subprocess.run(
        [sys.executable, "-c", script], input=shuffled.encode(), capture_output=True, check=True, cwd=ROOT,
        env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
    )  # fmt: skip
    assert done.stdout == sbom(value)


def test_it_has_no_clock_and_a_serial_number_of_its_contents() -> None:
    value = record()
    first = document(value)
    value["patches"][0]["sha256"] = "9" * 64
    second = document(value)
    assert "timestamp" not in first["metadata"]
    assert first["serialNumber"].startswith("urn:uuid:")
    assert first["serialNumber"] == document(record())["serialNumber"] != second["serialNumber"]


def test_the_wheel_itself_with_its_lineage() -> None:
    root = document(record())["metadata"]["component"]
    assert root["name"] == "vllm"
    assert root["purl"] == f"pkg:pypi/vllm@{root['version'].replace('+', '%2B')}"
    (upstream,) = root["pedigree"]["ancestors"]
    assert upstream["purl"] == "pkg:pypi/vllm@0.20.0?file_name=vllm-0.20.0.tar.gz"
    assert upstream["hashes"] == [
        {"alg": "SHA-256", "content": "a6d50152936ee292455af3ffbe359f7a284ac43bf3b68caccf29f368e196cc72"}
    ]
    (commit,) = root["pedigree"]["commits"]
    assert commit["uid"] == "b8160878f07fe6aff02deb12bc842df3fa4a9237"


def test_each_patch_resolves_the_issues_that_its_header_names() -> None:
    patches = document(record())["metadata"]["component"]["pedigree"]["patches"]
    told = {patch["diff"]["url"].split("#")[0]: patch for patch in patches}
    for path in sorted((ROOT / "patches/vllm").glob("*.patch")):
        patch = told.pop(f"patches/vllm/{path.name}")
        bugs = read_header(tuple(path.read_bytes().splitlines(keepends=True))).bugs
        assert patch["type"] == "unofficial"
        assert {issue["source"]["url"] for issue in patch.get("resolves", ())} == set(bugs)
    assert told == {}
    resolved = [issue for patch in patches for issue in patch.get("resolves", ())]
    assert {"vllm-project/vllm#36835", "vllm-project/vllm#41124"} <= {issue["id"] for issue in resolved}
    assert all(issue["description"] and issue["source"]["name"] == "github.com" for issue in resolved)


def test_a_pull_request_that_was_brought_is_a_backport_and_one_that_is_upstream_is_none() -> None:
    value = record()
    value["patches"][0] |= {"file": "pr-2520.patch"}
    value["patches"][1] |= {"state": "contained"}
    patches = document(value)["metadata"]["component"]["pedigree"]["patches"]
    assert [p["type"] for p in patches if "pr-2520" in p["diff"]["url"]] == ["backport"]
    assert len(patches) == len(value["patches"]) - 1


def test_vendored_parts_go_by_the_names_that_advisories_use() -> None:
    for package, names in (("vllm", {"cutlass"}), ("flashinfer-jit-cache", {"cutlass", "spdlog"})):
        parts = {part["name"]: part for part in document(record(package))["components"]}
        assert names <= parts.keys()
        assert parts["cutlass"]["purl"] == "pkg:github/nvidia/cutlass@v4.4.2"
        assert parts["cutlass"]["version"] == "4.4.2"


def test_what_came_out_of_the_official_wheel_is_there_file_by_file() -> None:
    parts = document(record())["components"]
    (taken,) = [part for part in parts if part["name"].endswith(".whl")]
    assert taken["hashes"][0]["content"] == "29a135ca0d70650f057f15c7c0b560d24659524c771f70fbddc24597c861c118"
    inside = {part["name"]: part for part in taken["components"]}
    assert inside["vllm-flash-attn"]["purl"].startswith("pkg:github/vllm-project/flash-attention@f5bc33cf")
    assert inside["triton_kernels"]["version"] == "v3.6.0"
    assert inside["vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"]["type"] == "file"


def test_the_toolchain_is_the_formulation() -> None:
    (formula,) = document(record())["formulation"]
    made_with = {part["name"]: part for part in formula["components"]}
    assert made_with["aarch64-linux-gnu-g++"]["version"] == "12.2.0"
    versions = {part["purl"].split("?")[0] for part in formula["components"]}
    assert {"pkg:pypi/nvidia-cuda-nvcc@13.0.88", "pkg:pypi/torch@2.11.0"} <= versions


def test_every_component_that_is_inside_is_a_dependency_of_the_wheel() -> None:
    found = document(record())
    root = found["metadata"]["component"]["bom-ref"]
    (edges,) = [each["dependsOn"] for each in found["dependencies"] if each["ref"] == root]
    assert set(edges) == {part["bom-ref"] for part in found["components"]}


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"bomFormat": "SPDX"}', b'{"bomFormat": "CycloneDX"}', b"\xff"])
def test_what_is_no_document_of_ours_is_said(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        facts_in(data)


def test_every_fact_of_the_record_is_one_that_a_change_would_show() -> None:
    value, data = record(), sbom(record())
    told = facts_in(data)
    for place, change in {
        "commit vllm": ("package", "upstream_commit"),
        "tree vllm": ("package", "tree"),
        "result vllm": ("package", "result_tree"),
        "sdist vllm-0.20.0.tar.gz": ("package", "sdist_sha256"),
        "wheel": ("package", "version"),
    }.items():
        other = json.loads(json.dumps(value))
        other[change[0]][change[1]] = "1" * 40
        assert facts_of(other)[place] != told[place]


def test_paths_are_of_this_repository() -> None:
    for package in PACKAGES:
        for key in facts_of(record(package)):
            if key.startswith("patch "):
                assert (Path(ROOT) / "patches" / key.removeprefix("patch ")).is_file()
