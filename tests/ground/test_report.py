"""What people see: durations and sizes, folds on GitHub, progress that does not flood a log."""

from __future__ import annotations

import io
import os
import re
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builder.errors import FetchError, Interrupted
from builder.report import Report, counted, duration, size
from tests.ground.conftest import CALM


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (4320, "1 h 12 min"),
        (360_000, "100 h 00 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@CALM
@given(st.floats(0, 1e6))
def test_no_duration_says_60_of_anything(seconds: float) -> None:
    assert re.fullmatch(r"\d\.\d s|[1-5]?\d s|[1-5]?\d min [0-5]\d s|\d+ h [0-5]\d min", duration(seconds))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (812, "812 B"),
        (3_400, "3.4 kB"),
        (235_800_000, "235.8 MB"),
        (1_250_000_000, "1.25 GB"),
        (999_960, "1.0 MB"),
        (999_960_000, "1.00 GB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@CALM
@given(st.integers(0, 10**12))
def test_no_size_says_a_thousand_of_a_smaller_unit(count: int) -> None:
    number, unit = size(count).split()
    assert float(number) < 1000 or unit == "GB"


def _report(*, github: bool = False, quiet: bool = False, terminal: bool = False) -> tuple[Report, io.StringIO]:
    stream = Terminal() if terminal else io.StringIO()
    return Report(stream, quiet=quiet, github=github), stream


def test_a_step_says_its_title_and_its_time() -> None:
    report, stream = _report()
    with report.step("compile vllm"):
        report.note("94 units")
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["==> compile vllm", "    94 units"]
    assert re.fullmatch(r"    done in 0\.\d s", lines[2])
    assert list(report.timings) == ["compile vllm"]


@pytest.mark.parametrize(
    ("error", "word"),
    [(FetchError("x"), "failed"), (KeyboardInterrupt(), "stopped"), (Interrupted("x"), "stopped")],
)
def test_a_step_that_ends_badly_says_so(error: BaseException, word: str) -> None:
    report, stream = _report(github=True)
    with pytest.raises(type(error)), report.step("fetch"):
        raise error
    lines = stream.getvalue().splitlines()
    assert lines[0] == "::group::fetch"
    assert lines[1].startswith(f"    {word} in ")
    assert lines[2] == "::endgroup::"


def test_times_of_equal_titles_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 10.0, 13.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    report, _ = _report()
    for _ in range(2):
        with report.step("fetch"):
            pass
    assert report.timings == {"fetch": 5.0}


def test_github_folds_never_nest_open() -> None:
    """GitHub has no folds within folds: a second one ends the first, so text stays readable."""
    report, stream = _report(github=True)
    with report.step("outer"), report.step("inner"):
        report.note("x")
    text = stream.getvalue()
    assert text.count("::group::") == text.count("::endgroup::") == 2


def test_steps_inside_another_stay_in_its_fold_and_name_themselves_when_they_end() -> None:
    report, stream = _report(github=True)
    first, second = (report.step(f"compile {name}", inside=True) for name in ("vllm", "flashinfer"))
    with report.step("compile aeon7"), first, second:
        report.note("x")
    lines = [re.sub(r"\d\.\d", "0.0", line) for line in stream.getvalue().splitlines()]
    assert lines == [
        "::group::compile aeon7",
        "==> compile vllm",
        "==> compile flashinfer",
        "    x",
        "    compile flashinfer: done in 0.0 s",
        "    compile vllm: done in 0.0 s",
        "    done in 0.0 s",
        "::endgroup::",
    ]


def test_threads_that_share_a_report_lose_no_line_and_no_count() -> None:
    report, stream = _report()

    def work(name: str) -> None:
        for number in range(300):
            report.line(f"{name} {number}")
            report.add("made", 1)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stream.getvalue().splitlines()
    assert sorted(lines) == sorted(f"{name} {number}" for name in "abc" for number in range(300))
    assert report.counters == {"made": 900}


def test_each_of_two_things_at_once_is_told_every_10_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    report, stream = _report()
    for tick in range(300):
        monkeypatch.setattr(time, "monotonic", lambda tick=tick: 1000.0 + tick / 10)
        report.progress(tick, 1000, f"{tick % 2}", of=f"{tick % 2}")
    assert [line.split()[-1] for line in stream.getvalue().splitlines()].count("0") == 3
    assert [line.split()[-1] for line in stream.getvalue().splitlines()].count("1") == 3


def test_warnings_are_annotations_on_github() -> None:
    for github, line in ((True, "::warning::old glibc\n"), (False, "  ! old glibc\n")):
        report, stream = _report(github=github)
        report.warn("old glibc")
        assert stream.getvalue() == line


def test_quiet_says_nothing_at_all_and_still_counts() -> None:
    report, stream = _report(quiet=True, github=True, terminal=True)
    with report.step("x"):
        report.line("a")
        report.note("b")
        report.warn("c")
        report.progress(1, 2, "d")
        report.progress(2, 2, "d")
        report.add("bytes fetched", 7)
        report.add("bytes fetched", 5)
    assert stream.getvalue() == ""
    assert report.counters == {"bytes fetched": 12}
    assert list(report.timings) == ["x"]


def _at(monkeypatch: pytest.MonkeyPatch, report: Report, times: list[float], total: float = 100) -> None:
    for now in times:
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        report.progress(now % total, total, "torch")


def test_progress_in_a_log_is_said_at_most_every_10_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    report, stream = _report()
    _at(monkeypatch, report, [1000.0 + tenth / 10 for tenth in range(1, 400)], total=10_000)
    assert len(stream.getvalue().splitlines()) == 4
    assert "\r" not in stream.getvalue()
    report.progress(100, 100, "torch")
    assert stream.getvalue().splitlines()[-1] == "    [100%] torch"


def test_progress_on_a_terminal_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    report, stream = _report(terminal=True)
    _at(monkeypatch, report, [1000.0 + tick / 20 for tick in range(1, 40)])
    assert "\n" not in stream.getvalue()
    assert 10 <= stream.getvalue().count("\r\033[K") <= 20
    report.line("next")
    assert stream.getvalue().endswith("\r\033[Knext\n")


def test_progress_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _fd: os.terminal_size((40, 20)))
    report, stream = _report(terminal=True)
    report.progress(1, 3, "x" * 200, remaining=75)
    assert len(stream.getvalue().removeprefix("\r\033[K")) == 39


def test_progress_says_what_is_left_and_bears_an_unknown_total() -> None:
    report, stream = _report()
    report.progress(5, 5, "done", remaining=65)
    report.progress(7, 0, "7 files")
    assert stream.getvalue() == "    [100%] done, about 1 min 05 s left\n    7 files\n"


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [(1, ("job",), "1 job"), (0, ("job",), "0 jobs"), (2, ("patch", "patches"), "2 patches")],
)
def test_one_is_said_in_the_singular(count: int, words: tuple[str, ...], said: str) -> None:
    assert counted(count, *words) == said
