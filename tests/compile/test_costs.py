"""The table that ships, by the names that the gate, shares and plans have for units."""

from pathlib import Path

import pytest

from builder.compile.costs import UnitCost, measured, seconds_by_table, units_of
from builder.compile.gate.order import ordered, seconds_by_unit
from builder.compile.gate.task import Task, expectation, head_start, kin_of
from builder.compile.learned import lines
from builder.recipe import load

ROOT = Path(__file__).parents[2]
COSTS = {cost.unit: cost for cost in measured()}
REST = next(cost for cost in measured() if cost.unit.endswith("/*.cuda"))
"""Stands for what nobody measured of its module."""

LONG = "fused_moe_120/moe_gemm_moe_gemm_kernels_bf16_uint4.cuda"
GEMM = "fp4_gemm_cutlass_sm120/gen_gemm_sm120_cutlass_fp4_fp4_gemm_cutlass_half_256_128_128.cuda"


def test_each_row_is_one_unit_of_one_component() -> None:
    rows = measured()
    assert len({(row.component, row.unit) for row in rows}) == len(rows)
    assert all(row.seconds > 0 and row.units >= 1 for row in rows)
    assert all(("*" in row.unit) == (row.units > 1) for row in rows)
    jit = [row for row in rows if not row.unit.startswith("csrc/")]
    assert all(row.unit.startswith(f"{row.component}/") for row in jit)


@pytest.mark.parametrize("recipe", ["aeon7", "smoke"])
def test_every_module_of_the_recipes_is_known_unit_by_unit(recipe: str) -> None:
    components = load(recipe, ROOT).package("flashinfer-jit-cache").components
    costs = units_of("flashinfer-jit-cache", components)
    assert {cost.component for cost in costs} == set(components)
    assert all("/" in cost.unit for cost in costs)


def test_the_estimate_counts_units_that_nobody_measured() -> None:
    costs = units_of("flashinfer-jit-cache", ["fused_moe_120", "unheard_of"])
    assert sum(cost.units for cost in costs) == 38 + 1
    assert sum(cost.units * cost.seconds for cost in costs) > 3600
    assert costs[-1] == UnitCost("unheard_of", "unheard_of", 20.0)


def test_one_stands_for_the_rest_of_its_module_by_language() -> None:
    assert (kin_of("m/x.cuda"), kin_of("m/x"), kin_of("csrc/moe/x.cu")) == ("m/*.cuda", "m/*", "csrc/moe/*")
    assert seconds_by_table(f"{REST.component}/new.cuda") == REST.seconds
    paged = "csrc/attention/paged_attention_v2.cu"
    assert seconds_by_table(paged) == COSTS[paged].seconds
    assert seconds_by_table("csrc/attention/new.cu") is None


def test_the_first_run_expects_the_peaks_that_ship(tmp_path: Path) -> None:
    (tmp_path / "in.ii").write_text("x")
    task = Task("cicc", "/cicc", [str(tmp_path / "in.ii")], f"/root/cached_ops/{GEMM}.o")
    assert expectation(task, lines({}))[0] == COSTS[GEMM].peak * 21 // 20 > 6 << 30
    op = "fp4_quantization_121/thop_fp4Op"
    host = Task("cc1plus", "/cc1plus", [str(tmp_path / "in.ii")], f"/root/cached_ops/{op}.o")
    assert expectation(host, lines({}))[0] == COSTS[op].peak * 21 // 20


def test_ninja_takes_units_that_nobody_measured_for_as_long_as_their_module_says() -> None:
    text = "".join(
        f"build /jit/{name}.o: cuda_compile /src/{n}.cu\n"
        for n, name in enumerate(["fp4_kv_quant/csrc_fp4_kv_quantization.cuda", f"{REST.component}/new.cuda", LONG])
    )
    after = ordered({"build.ninja": text}, seconds_by_unit(lines({})))["build.ninja"]
    places = [after.index(name) for name in (LONG, f"{REST.component}/new", "fp4_kv_quant")]
    assert places == sorted(places)


def test_a_step_comes_before_others_by_what_its_whole_unit_takes(tmp_path: Path) -> None:
    (tmp_path / "in.ii").write_text("x")

    def start(name: str, learned: str) -> float:
        return head_start(
            Task("ptxas", "/ptxas", [str(tmp_path / "in.ii")], f"/root/cached_ops/{name}.o"), learned, 7.0
        )

    assert start(LONG, lines({})) == COSTS[LONG].seconds > 300
    assert start(f"{REST.component}/new.cuda", lines({})) == REST.seconds, "as long as its module says"
    assert start("unheard_of/x.cuda", lines({})) == 7.0, "what the step itself takes"
    with pytest.raises(ValueError, match="unpack"):
        start("m/x.cuda", "unit\tm/x.cuda\ttorn")
