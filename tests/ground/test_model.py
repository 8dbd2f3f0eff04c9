"""The nouns: how an architecture is read and written, and that records cannot be changed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder import model
from builder.model import Arch, Target
from tests.ground.conftest import CALM

ARCHS = st.builds(Arch, st.integers(1, 99), st.integers(0, 9), st.sampled_from(["", "a", "f"]), st.booleans())


@CALM
@given(ARCHS)
def test_what_is_written_is_read_back(arch: Arch) -> None:
    assert Arch.parse(str(arch)) == arch


@CALM
@given(ARCHS)
def test_sm_names_are_exact(arch: Arch) -> None:
    assert arch.sm == f"sm_{arch.major * 10 + arch.minor}{arch.suffix}"


@CALM
@given(st.text(max_size=12))
def test_any_text_is_read_as_it_stands_or_refused_by_name(text: str) -> None:
    refusal = ""
    try:
        assert str(Arch.parse(text)) == text
    except ValueError as error:
        refusal = str(error)
    assert refusal == "" or (repr(text) in refusal and "12.1a" in refusal)


@CALM
@given(ARCHS, st.text(min_size=1, max_size=3))
def test_nothing_may_follow_or_precede(arch: Arch, extra: str) -> None:
    for text in (f"{arch}\n", f" {arch}", f"{arch}{extra}"):
        if text in {f"{arch.major}.{arch.minor}{suffix}{ptx}" for suffix in ("", "a", "f") for ptx in ("", "+PTX")}:
            continue
        with pytest.raises(ValueError, match="not a compute capability"):
            Arch.parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "12", "121", "sm_121a", "12.1A", "12.1af", "12.1+ptx", "012.1", "0.1", "12.10", "\uff11\uff12.1", "-2.1"],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as 12\.1a, 12\.0f or 12\.0\+PTX"):
        Arch.parse(text)


def test_archs_sort_by_number_not_by_spelling() -> None:
    archs = [Arch.parse(text) for text in ("12.1a", "9.0a", "10.0", "12.0+PTX", "12.0")]
    assert [str(arch) for arch in sorted(archs)] == ["9.0a", "10.0", "12.0", "12.0+PTX", "12.1a"]


def test_a_target_names_its_machine() -> None:
    assert Target("linux-aarch64", (Arch(12, 1, "a"),), "3.12").machine == "aarch64"


def test_every_noun_is_frozen() -> None:
    nouns = [thing for thing in vars(model).values() if isinstance(thing, type) and thing.__module__ == model.__name__]
    assert len(nouns) > 10
    for noun in nouns:
        assert dataclasses.is_dataclass(noun), noun
        assert noun.__dataclass_params__.frozen, noun  # type: ignore[attr-defined]
        assert "__slots__" in vars(noun), noun
