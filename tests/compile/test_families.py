import re

import pytest

from builder.compile.families import Family, FamilyCheck, families_for
from builder.errors import CompileError
from builder.model import Arch

A = Arch.parse("12.1a")
GOOD = [
    "-- CUDA supported target architectures: 12.1a",
    "-- Building Marlin kernels for archs: 12.0+PTX",
    "-- Building hadacore",
    "-- Building scaled_mm_c3x_sm120 for archs: 12.1a",
    "-- Building moe_data for archs: 12.1a",
    "-- Building NVFP4 for archs: 12.1a",
    "-- Not building NVFP4 as no compatible archs were found.",
    "-- Building Marlin MOE kernels for archs: 12.0+PTX",
    "-- Configuring done (2.0s)",
]


def read(lines: list[str]) -> None:
    check = FamilyCheck(families_for("vllm", ["_C", "_C_stable_libtorch", "_moe_C"], A), A)
    for line in lines:
        check.line(line)


def test_what_a_good_configure_says_passes() -> None:
    read(GOOD)


def test_121a_silently_taken_as_120f_stops_at_configure() -> None:
    with pytest.raises(CompileError, match=r"builds the architecture list for 12\.0f"):
        read(["-- CUDA supported target architectures: 12.0f"])


def test_a_skipped_family_is_named_with_configures_own_words() -> None:
    with pytest.raises(CompileError, match="leaves out NVFP4") as caught:
        read([line for line in GOOD if "Building NVFP4" not in line])
    assert "Not building NVFP4 as no compatible archs" in str(caught.value)


@pytest.mark.parametrize(
    ("said", "name"), [("Marlin kernels", "Marlin"), ("Marlin MOE kernels", r"Marlin \(mixture of experts\)")]
)
def test_a_family_that_would_be_compiled_on_the_device(said: str, name: str) -> None:
    """As upstream has it: its lists end at 8.0+PTX."""
    lines = [line.replace("12.0+PTX", "8.0+PTX") if said in line else line for line in GOOD]
    with pytest.raises(CompileError, match=rf"configure builds {name} for 8\.0\+PTX") as caught:
        read(lines)
    assert caught.value.expected == "12.0+PTX"


def test_a_family_without_a_list_only_has_to_be_there() -> None:
    with pytest.raises(CompileError, match="configure leaves out hadacore\n"):
        read([line for line in GOOD if "hadacore" not in line])


def test_families_follow_the_components() -> None:
    assert [family.name for family in families_for("vllm", ["cumem_allocator"], A)] == ["the architecture list"]
    assert families_for("flashinfer-python", [], A) == []


def test_ptx_of_an_architecture_is_not_that_architecture() -> None:
    with pytest.raises(CompileError):
        FamilyCheck([Family("x", re.compile("for (?P<found>.*)"))], A).line("for 12.0+PTX")
