"""`inspect` as people call it: how deep it reads and how much it tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Ended

Call = Callable[..., Ended]
SAMPLES = ROOT / "tests" / "data" / "samples"


def test_details_name_the_kernels_that_trap_or_do_nothing(here: Call) -> None:
    path = str(SAMPLES / "guard_sm_121a.o")
    plain = here("inspect", path, "--json").document["files"][0]["objects"][0]
    assert "trap_only" not in plain
    found = here("inspect", path, "details=yes", "--json").document["files"][0]["objects"][0]
    assert found["empty"] == ["sass sm_121a _Z13guarded_emptyPf"]
    assert len(found["trap_only"]) == 3
    text = here("inspect", path, "details=yes").err
    assert "guard_sm_121a.o: empty: sass sm_121a _Z13guarded_emptyPf" in text
    assert "guarded_empty" not in here("inspect", path).err


@pytest.mark.parametrize(("level", "kernels"), [("arch", None), ("sass", 1), ("all", 2)])
def test_the_level_says_how_much_is_read(here: Call, tmp_path: Path, level: str, kernels: int | None) -> None:
    """A PTX text whose kernel is called otherwise than that of its machine code: only `all` reads the text."""
    data = (SAMPLES / "launch_plain.so").read_bytes()
    assert b".entry _Z5scalePf" in data
    (tmp_path / "a.so").write_bytes(data.replace(b".entry _Z5scalePf", b".entry _Z5otherPf"))
    found = here("inspect", str(tmp_path / "a.so"), f"level={level}", "--json").document["files"][0]["objects"][0]
    assert {code["kernels"] for code in found["code"]} == ({None} if kernels is None else {1})
    assert sum(found["devices"].get("12.1", {}).values()) == (kernels or 0)


@pytest.mark.parametrize("words", [("details=maybe", "x"), ("details=yes", "oci:x"), ("level=most", "x")])
def test_what_it_refuses(here: Call, words: tuple[str, ...]) -> None:
    ended = here("inspect", *words)
    assert ended.code == 2
    assert "expected:" in ended.err
