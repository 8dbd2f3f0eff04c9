import itertools
from pathlib import Path

import pytest

from builder.compile.costs import measured as costs_measured
from builder.compile.ninjafile import Unit, units_in
from builder.compile.shard import Share, seconds_of, share_of, shares
from builder.errors import UsageError

REAL = (Path(__file__).parent / "data" / "vllm.ninja").read_text()
UNITS = units_in(REAL, "/var/tmp/spark-wheels/src/vllm", lambda _name: "")  # noqa: S108  as it stands in the file


@pytest.mark.parametrize("count", [1, 2, 4, 7, 200])
def test_shares_of_a_real_build_are_disjoint_and_complete(count: int) -> None:
    parts = [share_of(UNITS, Share(number, count)) for number in range(1, count + 1)]
    assert sorted(itertools.chain(*parts)) == sorted(UNITS)
    assert len(set(itertools.chain(*parts))) == len(UNITS)


def test_shares_cost_about_the_same() -> None:
    loads = [sum(map(seconds_of, part)) for part in shares(UNITS, 4)]
    assert max(loads) - min(loads) < 30
    assert sum(loads) > 5000


def test_the_cut_does_not_hang_on_the_order_in_which_units_are_listed() -> None:
    mixed = list(UNITS)
    mixed.reverse()
    assert shares(mixed, 3) == shares(UNITS, 3)


def test_no_share_is_longer_than_an_equal_part_and_its_last_unit() -> None:
    costs = [seconds_of(unit) for unit in UNITS]
    loads = [sum(map(seconds_of, part)) for part in shares(UNITS, 5)]
    assert max(loads) <= sum(costs) / 5 + max(costs)


CACHED = "/var/tmp/spark-wheels/src/flashinfer-jit/cached_ops"  # noqa: S108  as it stands in its build file
JIT = f"{CACHED}/fused_moe_120"


def test_units_of_flashinfer_are_found_in_the_table_by_the_gates_name_for_them() -> None:
    costs = {cost.unit: cost for cost in costs_measured()}
    known = Unit(f"{JIT}/moe_gemm_moe_gemm_kernels_bf16_uint4.cuda.o", "csrc/moe_gemm_kernels_bf16_uint4.cu")
    assert seconds_of(known) == costs["fused_moe_120/moe_gemm_moe_gemm_kernels_bf16_uint4.cuda"].seconds > 300
    rest = next(cost for unit, cost in costs.items() if unit.endswith("/*.cuda"))
    other = Unit(f"{CACHED}/{rest.component}/new.cuda.o", "/generated/x.cu")
    assert seconds_of(other) == rest.seconds, "what its module's units are taken to last"
    assert seconds_of(Unit(f"{JIT}/common_logger.o", "csrc/nv_internal/cpp/common/logger.cpp")) == 5.0
    assert seconds_of(Unit("/jit/cached_ops/unheard_of/x.cuda.o", "csrc/x.cu")) == 20.0


def test_the_long_units_of_flashinfer_are_spread_over_the_shares() -> None:
    longest = sorted(costs_measured(), key=lambda cost: -cost.seconds * (cost.component == "fused_moe_120"))[:8]
    units = [Unit(f"{CACHED}/{cost.unit}.o", "x.cu") for cost in longest]
    units += [Unit(f"/jit/fp4_quantization_121/{n}.cuda.o", f"{n}.cu") for n in range(24)]
    long = [sum(unit.target.startswith(JIT) for unit in part) for part in shares(units, 4)]
    assert long == [2, 2, 2, 2]


def test_a_unit_without_a_measurement_counts_by_its_language() -> None:
    assert seconds_of(Unit("a.o", "never/seen.cu")) > seconds_of(Unit("b.o", "never/seen.cpp"))


def test_a_share_is_read_and_written_alike() -> None:
    assert (Share.parse("2/4"), str(Share.parse("2/4"))) == (Share(2, 4), "2/4")


@pytest.mark.parametrize("text", ["0/4", "5/4", "x", "", "1", "1/0", "-1/4", "1/4/2", "1.5/4", "1/9999"])
def test_what_is_no_share_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="is no share") as refused:
        Share.parse(text)
    assert "1/4" in str(refused.value)
