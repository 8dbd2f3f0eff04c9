"""CASES 1, 2, 4 and the proofs: verdicts over machine code that the pinned compiler made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from builder.finding import Verdict
from builder.inspect import elf
from builder.verify import Built, Exempt, Expectations, Proof, for_device
from tests.verify.conftest import LAUNCH_ARCHS, SAMPLES, Judge, MakeWheel, only, rules, sample


def test_a_good_wheel_passes(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    verdict = judge_file(make_wheel(), wanted)
    assert verdict.good, verdict.findings
    assert verdict.archs == {"demo/_C.so": ("compute_80", "sm_121a", "sm_80")}


def test_plain_and_family_code_are_told_apart(judge_file: Judge) -> None:
    asked = Expectations("12.0", archs=("sm_120f",))
    assert judge_file(SAMPLES / "scale_sm_120f.o", asked).good
    message = only(judge_file(SAMPLES / "scale_sm_120.o", asked), "arch")
    assert message == "code that nobody asked for (asked for sm_120f, found sm_120): 1 in all: sm_120"


@pytest.mark.parametrize(("name", "good"), [("120", True), ("120f", True), ("120a", False)])
def test_the_suffix_decides_what_runs_on_another_device(judge_file: Judge, name: str, *, good: bool) -> None:
    verdict = judge_file(SAMPLES / f"scale_sm_{name}.cubin", for_device("12.1"))
    assert verdict.good is good
    assert good or "no code that runs on 12.1" in only(verdict, "arch")


def kernels(verdict: Verdict, rule: str) -> str:
    return next(finding.message for finding in verdict.findings if finding.rule == rule)


@pytest.mark.parametrize("name", ["guard_sm_121a.o", "guard_ptx_121a.o"])
def test_a_wrong_guard_is_named_kernel_by_kernel(judge_file: Judge, name: str) -> None:
    verdict = judge_file(SAMPLES / name, for_device("12.1"))
    assert {"empty", "trap"} <= set(rules(verdict))
    assert "1 in all: guarded_empty(float*)" in kernels(verdict, "empty")
    trapped = kernels(verdict, "trap")
    assert "3 in all" in trapped
    assert "guarded_trap(float*)" in trapped
    assert "guarded_printf_trap(float*)" in trapped
    assert "checked" not in trapped


def test_the_right_guard_passes_and_a_trap_on_one_path_too(judge_file: Judge) -> None:
    verdict = judge_file(SAMPLES / "guard_sm_120.o", for_device("12.0"))
    assert "1 in all: both_paths_trap(int)" in only(verdict, "trap")


def test_code_for_another_device_alone(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_sm_75.so")})
    strange, nowhere, none = judge_file(path, wanted).findings
    assert nowhere.message == (
        "no code that runs on 12.1: asked for sm_121a, sm_80, compute_80, found sm_75 "
        "(1 kernel, none of which can run there)"
    )
    assert (strange.names, nowhere.names, none.rule) == (("sm_75",), ("none-runs",), "none")


def without_code() -> bytes:
    """A library that launches kernels and has none: zeros are where they were."""
    whole = sample("launch_sm_75.so")
    code = bytes(next(elf.fatbin_sections(elf.parse(memoryview(whole)))))
    return whole.replace(code, bytes(len(code)))


def test_no_code_at_all(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    message = only(judge_file(make_wheel({"demo/_C.so": without_code()}), wanted), "arch")
    assert "it launches kernels and holds no device code; asked for sm_121a, sm_80, compute_80, found none" in message


def test_an_object_that_launches_nothing_needs_no_code(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    assert judge_file(make_wheel({"demo/_C.so": sample("nothing.so")}), wanted).good


def test_kernels_left_to_the_device_to_compile(judge_file: Judge) -> None:
    verdict = judge_file(SAMPLES / "launch_ptx.so", for_device("12.1"))
    assert "has to compile from PTX at load: 1 in all: scale(float*)" in only(verdict, "jit")


def section(name: str) -> bytes:
    """The fatbin section of a sample, padded so that another can follow."""
    data = next(iter(elf.fatbin_sections(elf.parse(memoryview(sample(name))))))
    return bytes(data) + bytes(-len(data) % 8)


def test_some_native_some_compiled_at_load_some_for_others(tmp_path: Path, judge_file: Judge) -> None:
    path = tmp_path / "three.fatbin"
    path.write_bytes(section("launch_zstd.so") + section("launch_ptx.so") + section("launch_sm_75.so"))
    any_device = judge_file(path, for_device("12.1"))
    assert "has to compile from PTX at load: 1 in all: scale(float*)" in only(any_device, "jit")
    strict = judge_file(path, replace(for_device("12.1"), strict=True))
    assert sorted(rules(strict)) == ["jit", "none"]
    assert "cannot run on 12.1 (they are for sm_75): 1 in all: scale(float*)" in kernels(strict, "none")


def test_archs_that_nobody_asked_for(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    verdict = judge_file(make_wheel(), replace(wanted, archs=("sm_121a",)))
    assert only(verdict, "arch") == (
        "code that nobody asked for (asked for sm_121a, found compute_80, sm_121a, sm_80): 2 in all: compute_80, sm_80"
    )


UPSTREAM = Exempt("demo/_C.so", "arch", "upstream adds architectures")


@pytest.mark.parametrize(("name", "left"), [("*", ()), ("*_80", ()), ("sm_80", ("compute_80",))])
def test_an_exception_for_archs_is_no_wider_than_its_name(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, name: str, left: tuple[str, ...]
) -> None:
    asked = replace(wanted, archs=("sm_121a",), exempt=(replace(UPSTREAM, name=name),))
    verdict = judge_file(make_wheel(), asked)
    assert [f.names for f in verdict.findings] == [left] * bool(left)
    assert [a.finding.rule for a in verdict.accepted] == ["arch"]


@pytest.mark.parametrize(
    ("data", "archs", "name", "left"),
    [
        (sample("launch_sm_75.so"), ("sm_75",), "none-runs", ["none"]),
        (without_code(), LAUNCH_ARCHS, "no-code", []),
    ],
    ids=["none runs", "no code"],
)
def test_what_runs_nowhere_is_excused_by_its_own_name_alone(
    make_wheel: MakeWheel,
    judge_file: Judge,
    wanted: Expectations,
    data: bytes,
    archs: tuple[str, ...],
    name: str,
    left: list[str],
) -> None:
    path = make_wheel({"demo/_C.so": data})
    for wide in ("*", "n*"):
        verdict = judge_file(path, replace(wanted, archs=archs, exempt=(replace(UPSTREAM, name=wide),)))
        assert sorted(rules(verdict)) == sorted(["arch", "exception", *left])
    named = judge_file(path, replace(wanted, archs=archs, exempt=(replace(UPSTREAM, name=name),)))
    assert rules(named) == left
    assert [a.finding.names for a in named.accepted] == [(name,)]


OFFICIAL = Exempt("demo/_C.so", "jit", "taken from the official wheel: compiled at first use")


def test_an_exception_for_what_is_compiled_at_load(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    asked = replace(wanted, exempt=(OFFICIAL,), archs=("sm_121a",), built=(Built("demo/_C.so", ("compute_120f",)),))
    verdict = judge_file(make_wheel({"demo/_C.so": sample("launch_ptx.so")}), asked)
    assert verdict.good, verdict.findings
    assert [a.finding.rule for a in verdict.accepted] == ["jit"]


@pytest.mark.parametrize(
    ("data", "told"),
    [(sample("launch_sm_75.so"), ["arch", "arch", "exception", "none"]), (without_code(), ["arch", "exception"])],
    ids=["none runs", "no code"],
)
def test_does_not_excuse_what_cannot_run(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, data: bytes, told: list[str]
) -> None:
    verdict = judge_file(make_wheel({"demo/_C.so": data}), replace(wanted, exempt=(OFFICIAL,)))
    assert sorted(rules(verdict)) == told
    assert not verdict.accepted


def test_some_compiled_at_load_and_none_native(tmp_path: Path, judge_file: Judge) -> None:
    path = tmp_path / "two.fatbin"
    path.write_bytes(section("launch_ptx.so") + section("launch_sm_75.so"))
    exempt = (replace(OFFICIAL, object="demo/two.fatbin"),)
    assert only(judge_file(path, Expectations("12.1", strict=True, exempt=exempt)), "none")


def built(*archs: str, path: str = "demo/_C.so") -> tuple[Built, ...]:
    return (Built(path, archs),)


@pytest.mark.parametrize(
    ("archs", "told"),
    [
        (LAUNCH_ARCHS, ""),
        (("sm_80", "compute_80"), "code that nobody asked for (asked for sm_80, compute_80, found"),
        ((*LAUNCH_ARCHS, "sm_120f"), "no code for what is asked of it (asked for sm_121a, sm_80, compute_80, sm_120f,"),
    ],
)
def test_what_is_asked_of_one_object(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, archs: tuple[str, ...], told: str
) -> None:
    files = {"demo/_C.so": sample("launch_zstd.so"), "demo/_D.so": sample("launch_zstd.so")}
    verdict = judge_file(make_wheel(files), replace(wanted, built=built(*archs)))
    assert verdict.good if not told else told in only(verdict, "arch")
    assert [f.where for f in verdict.findings] == ["demo/_C.so"] * bool(told)


def test_an_object_of_the_second_choice_alone(judge_file: Judge) -> None:
    either = Expectations("12.1", archs=("sm_121a", "sm_120"))
    assert judge_file(SAMPLES / "scale_sm_120.o", either).good
    asked = replace(either, built=built("sm_121a", path="vllm/scale_sm_120.o"))
    verdict = judge_file(SAMPLES / "scale_sm_120.o", asked)
    assert sorted(f.message for f in verdict.findings) == [
        "code that nobody asked for (asked for sm_121a, found sm_120): 1 in all: sm_120",
        "no code for what is asked of it (asked for sm_121a, found sm_120): 1 in all: sm_121a",
    ]


def test_the_first_rule_for_an_object_counts(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    rows = (*built(*LAUNCH_ARCHS), *built("sm_90", path="*.so"))
    assert judge_file(make_wheel(), replace(wanted, built=rows)).good
    assert not judge_file(make_wheel(), replace(wanted, built=rows[::-1])).good


def test_a_rule_for_archs_of_nothing_is_a_finding(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    asked = replace(wanted, built=built("sm_121a", path="demo/_X.so"))
    assert "nothing is there that could hold sm_121a" in only(judge_file(make_wheel(), asked), "arch")


def test_an_object_that_is_to_hold_kernels(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    path = make_wheel({"demo/_C.so": sample("nothing.so")})
    message = only(judge_file(path, replace(wanted, built=built("sm_121a"))), "arch")
    assert message == "it is to hold kernels and holds no device code; asked for sm_121a, found none"


PROOF = Proof("*mma_sm_*.cubin", "*nvfp4*scaled_mm*", "OMMA")


def test_a_proof_holds_on_native_code(judge_file: Judge) -> None:
    assert judge_file(SAMPLES / "mma_sm_121a.cubin", Expectations("12.1", proofs=(PROOF,))).good
    assert judge_file(SAMPLES / "mma_sm_120f.cubin", Expectations("12.1", proofs=(PROOF,))).good


def test_a_proof_fails_without_the_instruction(judge_file: Judge) -> None:
    proof = replace(PROOF, kernel="*mxfp8*scaled_mm*")
    verdict = judge_file(SAMPLES / "mma_sm_121a.cubin", Expectations("12.1", proofs=(proof,)))
    assert "without OMMA in code that runs on 12.1: 1 in all: mxfp8_scaled_mm" in only(verdict, "instruction")


def test_ptx_proves_nothing(judge_file: Judge) -> None:
    wanted = Expectations("12.1", proofs=(Proof("*.ptx", "*nvfp4*", "OMMA"),))
    assert "instruction" in rules(judge_file(SAMPLES / "mma_ptx_121a.ptx", wanted))


def test_a_proof_over_nothing_is_a_finding(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    absent = replace(wanted, proofs=(Proof("demo/_C.so", "*nvfp4*", "OMMA"),))
    assert "it has no kernel like *nvfp4*, where one is to hold OMMA" in only(
        judge_file(make_wheel(), absent), "instruction"
    )
    nowhere = replace(wanted, proofs=(Proof("demo/_X.so", "*", "OMMA"),))
    assert "nothing is there" in only(judge_file(make_wheel(), nowhere), "instruction")


def test_each_object_of_a_proof_has_such_a_kernel(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    """One that has it does not stand for another that lost it."""
    files = {"demo/_C.so": sample("launch_zstd.so"), "demo/a.cubin": sample("mma_sm_121a.cubin")}
    files["demo/b.cubin"] = files["demo/a.cubin"].replace(b"nvfp4", b"nvfpX")
    asked = replace(wanted, archs=(), proofs=(Proof("demo/*.cubin", "*nvfp4*scaled_mm*", "OMMA"),))
    verdict = judge_file(make_wheel(files), asked)
    assert [(f.rule, f.where) for f in verdict.findings] == [("instruction", "demo/b.cubin")]


def test_fewer_kernels_than_there_were_is_a_finding(judge_file: Judge) -> None:
    """All that are left hold it, and the others were left out."""
    wanted = Expectations("12.1", proofs=(replace(PROOF, at_least=2),))
    message = only(judge_file(SAMPLES / "mma_sm_121a.cubin", wanted), "instruction")
    assert message == "it has 1 kernel like *nvfp4*scaled_mm*, where at least 2 are to hold OMMA"


def test_an_exception_is_shown_with_its_reason(judge_file: Judge) -> None:
    exempt = (Exempt("*.o", "trap", "known", "*both_paths*"),)
    verdict = judge_file(SAMPLES / "guard_sm_120.o", Expectations("12.0", exempt=exempt))
    assert verdict.good
    assert [(a.finding.rule, a.reason) for a in verdict.accepted] == [("trap", "known")]


def test_an_exception_is_no_wider_than_its_name(judge_file: Judge) -> None:
    exempt = (Exempt("*.o", "trap", "known", "*guarded_trap*"),)
    verdict = judge_file(SAMPLES / "guard_sm_121a.o", Expectations("12.1", exempt=exempt))
    assert "guarded_trap" not in kernels(verdict, "trap").replace("guarded_printf_trap", "")
    assert "guarded_printf_trap" in kernels(verdict, "trap")


def test_an_exception_that_nothing_needs_is_a_finding(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    verdict = judge_file(make_wheel(), replace(wanted, exempt=(Exempt("demo/_C.so", "arch", "once upon a time"),)))
    assert "the exception for arch no longer applies" in only(verdict, "exception")
