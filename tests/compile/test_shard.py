import itertools
from pathlib import Path

import pytest

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
    costs = {unit.target: float(n % 17 + 1) for n, unit in enumerate(UNITS)}
    loads = [sum(costs[unit.target] for unit in part) for part in shares(UNITS, 5, costs)]
    assert max(loads) <= sum(costs.values()) / 5 + max(costs.values())


def test_a_unit_without_a_measurement_counts_by_its_language() -> None:
    assert seconds_of(Unit("a.o", "never/seen.cu")) > seconds_of(Unit("b.o", "never/seen.cpp"))


def test_a_share_is_read_and_written_alike() -> None:
    assert (Share.parse("2/4"), str(Share.parse("2/4"))) == (Share(2, 4), "2/4")


@pytest.mark.parametrize("text", ["0/4", "5/4", "x", "", "1", "1/0", "-1/4", "1/4/2", "1.5/4", "1/9999"])
def test_what_is_no_share_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="is no share") as refused:
        Share.parse(text)
    assert "1/4" in str(refused.value)
