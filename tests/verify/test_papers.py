"""The build record and the bill of materials inside a wheel: verify sees when they disagree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.context import Context
from builder.errors import NegativeVerdict
from builder.inspect import inspect_path
from builder.model import Wheel
from builder.store import sha256_of
from builder.supply import RECORD_NAME, SBOM_NAME, sbom
from builder.verify import for_device
from builder.verify.check import contents_of, examine, refusal
from builder.verify.sbom import paper_faults
from tests.supply.records import record
from tests.supply.wheels import TAKEN, wheel

Document = dict[str, Any]


def faults(path: Path) -> list[tuple[str, str]]:
    """Rule and message of each fault in the papers of a wheel."""
    file = inspect_path(path)
    with contents_of(path, file) as contents:
        return [(fault.rule, fault.message) for fault in paper_faults(file, contents)]


def test_a_wheel_as_it_is_built_is_good_as_a_whole(tmp_path: Path, context: Context) -> None:
    path = wheel(tmp_path)
    assert faults(path) == []
    verdict, file = examine(path, for_device("12.1"), context)
    assert verdict.findings == ()
    assert file.wheel is not None


def test_a_wheel_of_another_tool_is_not_held_to_our_papers(tmp_path: Path) -> None:
    assert faults(wheel(tmp_path, files={f"INFO/{RECORD_NAME}": None, f"INFO/{SBOM_NAME}": None})) == []


def test_a_missing_bill_is_a_finding_and_the_wheel_is_refused(tmp_path: Path, context: Context) -> None:
    path = wheel(tmp_path, files={f"INFO/{SBOM_NAME}": None})
    assert faults(path) == [("sbom", "the wheel has a build record and no bill of materials")]
    verdict, _ = examine(path, for_device("12.1"), context)
    assert not verdict.good
    assert "build the wheel again" in str(refusal(verdict, path))
    assert issubclass(type(refusal(verdict, path)), NegativeVerdict)
    assert Wheel(path, sha256_of(path), 1, "vllm", "0", "any").path == path


def edited(change: Callable[[Document], None]) -> bytes:
    value = record()
    value["prebuilt"]["taken"] = {}
    change(value)
    return sbom(value)


def _no_patch(value: Document) -> None:
    value["patches"].pop()


def _other_cutlass(value: Document) -> None:
    value["vendored"][0]["version"] = "4.4.1"


def _other_issue(value: Document) -> None:
    value["patches"][0]["bugs"] = ["https://github.com/vllm-project/vllm/issues/1"]


def _no_compiler(value: Document) -> None:
    value["toolchain"]["compiler"] = "clang 1"


def _more_tools(value: Document) -> None:
    value["toolchain"]["files"].pop()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_no_patch, "patch vllm/0023-cudagraph-align.patch: it says nothing, the build record sha256:"),
        (_other_cutlass, "vendored cutlass: it says 4.4.1"),
        (
            _other_issue,
            "issues of vllm/0001-cuda-arch-list.patch: it says https://github.com/vllm-project/vllm/issues/1",
        ),
        (_no_compiler, "compiler clang: it says 1"),
        (_more_tools, "it says nothing, the build record 2.11.0 sha256:"),
    ],
)
def test_a_bill_that_says_something_else_is_a_finding(
    tmp_path: Path, change: Callable[[Document], None], says: str
) -> None:
    found = faults(wheel(tmp_path, files={f"INFO/{SBOM_NAME}": edited(change)}))
    assert any(rule == "sbom" and says in message for rule, message in found), found


@pytest.mark.parametrize("data", [b"{}", b"[1", b'{"bomFormat": "CycloneDX", "metadata": []}'])
def test_a_damaged_bill_is_a_finding(tmp_path: Path, data: bytes) -> None:
    ((rule, message),) = faults(wheel(tmp_path, files={f"INFO/{SBOM_NAME}": data}))
    assert rule == "sbom"
    assert "cannot be read" in message


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"package": {"name": 1}}', b"\xff"])
def test_a_damaged_record_is_a_finding(tmp_path: Path, data: bytes) -> None:
    ((rule, message),) = faults(wheel(tmp_path, files={f"INFO/{RECORD_NAME}": data}))
    assert rule == "build-record"
    assert "cannot be read" in message


def test_a_record_that_lacks_any_part_is_damaged(tmp_path: Path) -> None:
    for part in ("package", "recipe", "patches", "vendored", "externals", "prebuilt", "toolchain"):
        value = {name: each for name, each in record().items() if name != part}
        ((rule, _),) = faults(wheel(tmp_path, files={f"INFO/{RECORD_NAME}": json.dumps(value).encode()}))
        assert rule == "build-record"


def test_a_record_of_another_wheel_is_a_finding(tmp_path: Path) -> None:
    value = record()
    value["package"]["version"] = "0.19.1+aeon7.1.p1"
    found = faults(wheel(tmp_path, files={f"INFO/{RECORD_NAME}": json.dumps(value).encode()}))
    assert ("build-record", found[0][1]) == found[0]
    assert "it is of vllm 0.19.1+aeon7.1.p1" in found[0][1]


@pytest.mark.parametrize("data", [b"fa2 = 2\n", None])
def test_a_file_that_is_not_the_official_wheels_is_a_finding(tmp_path: Path, data: bytes | None) -> None:
    name = next(iter(TAKEN))
    ((rule, message),) = faults(wheel(tmp_path, files={name: data}))
    assert rule == "build-record"
    assert ("no such file" in message) is (data is None)
