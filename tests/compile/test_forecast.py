"""What is said of the time left: from a log of steps as the gate writes it."""

import json
from pathlib import Path

import pytest

from builder.compile.forecast import Forecast

COSTS = {"a.cu": 10.0, "b.cu": 30.0, "c.cu": 60.0}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "steps.jsonl"


def line(unit: str, start: float, seconds: float) -> str:
    times = {"asked": start, "start": start, "end": start + seconds, "cpu_seconds": seconds}
    return json.dumps({"unit": unit, "tool": "cicc", "peak_bytes": 1, **times}) + "\n"


def step(log: Path, unit: str, start: float, seconds: float) -> None:
    with log.open("a") as sink:
        sink.write(line(unit, start, seconds))


def test_nothing_is_said_before_a_unit_compiled(log: Path) -> None:
    forecast = Forecast(COSTS, log)
    assert forecast.left(3, now=100.0) is None, "no step yet, and no log"
    forecast.finish("a.cu")
    assert forecast.left(2, now=100.1) is None, "a hit of the cache"
    step(log, "b.cu", 100, 10)
    assert forecast.left(2, now=110.0) is None, "one that compiles is not done"
    forecast.finish("b.cu")
    assert forecast.left(1, now=110.0) is not None


def test_what_is_left_goes_at_the_pace_of_what_compiled_and_hits_change_nothing(log: Path) -> None:
    """On one core, three times as fast as where it was measured."""
    forecast = Forecast({**COSTS, "hit.cu": 900.0}, log)
    forecast.finish("hit.cu")
    step(log, "b.cu", 100, 10)
    forecast.finish("b.cu")
    assert forecast.left(2, now=110.0) == pytest.approx((10 + 60) / 3)


def test_cores_that_work_at_once_make_the_pace(log: Path) -> None:
    forecast = Forecast({f"{number}.cu": 10.0 for number in range(100)}, log)
    for number in range(20):
        step(log, f"{number}.cu", 100 + number // 10 * 10, 10)
        forecast.finish(f"{number}.cu")
    assert forecast.left(80, now=120.0) == pytest.approx(80)


def test_it_lasts_at_least_as_long_as_the_longest_that_has_begun(log: Path) -> None:
    forecast = Forecast({"long.cu": 500.0} | {f"{number}.cu": 10.0 for number in range(100)}, log)
    step(log, "long.cu", 100, 2)
    for number in range(100):
        step(log, f"{number}.cu", 100, 10)
        forecast.finish(f"{number}.cu")
    assert forecast.left(1, now=150.0) == pytest.approx(450)


def test_what_has_been_done_of_a_unit_under_way_is_not_left(log: Path) -> None:
    forecast = Forecast({"a.cu": 10.0, "c.cu": 60.0}, log)
    step(log, "a.cu", 100, 10)
    step(log, "c.cu", 110, 50)
    forecast.finish("a.cu")
    assert forecast.left(1, now=160.0) == pytest.approx(10)


def test_a_build_that_goes_on_has_less_left_than_all_that_was_not_seen(log: Path) -> None:
    forecast = Forecast({f"{number}.cu": 10.0 for number in range(10)}, log)
    step(log, "7.cu", 100, 10)
    forecast.finish("7.cu")
    assert forecast.left(2, now=110.0) == pytest.approx(20)


def test_steps_of_others_and_lines_cut_short_count_for_nothing(log: Path) -> None:
    forecast = Forecast({"a.cu": 10.0, "b.cu": 20.0}, log)
    step(log, "of/another.package", 0, 999)
    step(log, "a.cu", 100, 10)
    whole = line("b.cu", 100, 5)
    with log.open("a") as sink:
        sink.write(f"[]\nno json\n{whole[:40]}")
    forecast.finish("a.cu")
    assert forecast.left(1, now=110.0) == pytest.approx(20)
    with log.open("a") as sink:
        sink.write(whole[40:])
    assert forecast.left(1, now=115.0) == pytest.approx(15), "a line is read once, when it is whole"
