"""Who may start, pass and pause, as pure decisions: sizes are in MB here."""

import pytest

from builder.compile.gate.admission import Step, admits, brake, low_mark, parsed, reserve

NOW = 1000.0


def waits(asked: float, expected: int, seconds: float = 60.0, *, alone: bool = False) -> Step:
    return Step(asked=asked, expected=expected, seconds=seconds, alone=alone)


def runs(expected: int, rss: int, *, left: float = 60.0, alone: bool = False) -> Step:
    return Step(asked=1, expected=expected, seconds=left, running=True, start=NOW, rss=rss, alone=alone)


def test_one_that_fits_beside_what_the_running_ones_still_take_may_start() -> None:
    running = [runs(expected=4000, rss=1000)]
    assert admits(waits(5, 2000), running, free=5000, jobs=4, now=NOW)
    assert not admits(waits(5, 2001), running, free=5000, jobs=4, now=NOW)


def test_a_running_step_above_its_expectation_takes_no_more_from_the_rest() -> None:
    assert admits(waits(5, 2000), [runs(expected=500, rss=3000)], free=2000, jobs=4, now=NOW)


def test_no_more_run_than_there_are_jobs() -> None:
    assert not admits(waits(5, 1), [runs(1, 1), runs(1, 1)], free=9000, jobs=2, now=NOW)


def test_with_nothing_running_the_oldest_starts_whatever_it_takes() -> None:
    assert admits(waits(5, 90_000), [], free=100, jobs=4, now=NOW)
    assert not admits(waits(5, 1), [waits(4, 90_000)], free=100, jobs=4, now=NOW)


def test_one_that_must_be_alone_waits_for_all_and_lets_none_in() -> None:
    assert not admits(waits(5, 1, alone=True), [runs(1, 1)], free=9000, jobs=4, now=NOW)
    assert admits(waits(5, 1, alone=True), [], free=9000, jobs=4, now=NOW)
    assert not admits(waits(5, 1), [runs(1, 1, alone=True)], free=9000, jobs=4, now=NOW)


def test_a_big_one_that_waits_is_passed_only_by_what_does_not_delay_it() -> None:
    big, running = waits(4, 6000), runs(expected=3000, rss=3000, left=30)
    assert admits(waits(5, 500, seconds=20), [big, running], free=4000, jobs=4, now=NOW), "it ends before"
    assert not admits(waits(5, 3000, seconds=40), [big, running], free=4000, jobs=4, now=NOW), "it would delay"
    assert admits(waits(5, 900, seconds=400), [big, running], free=4000, jobs=4, now=NOW), "it leaves room"


def test_one_retried_alone_is_not_passed_by_anything_longer_than_what_runs() -> None:
    alone, running = waits(4, 100, alone=True), runs(100, 100, left=10)
    assert admits(waits(5, 10, seconds=5), [alone, running], free=9000, jobs=4, now=NOW)
    assert not admits(waits(5, 10, seconds=50), [alone, running], free=9000, jobs=4, now=NOW)


def test_an_older_one_that_fits_has_its_room_kept_though_it_has_not_started_yet() -> None:
    older, running = waits(4, 3000), runs(100, 100)
    assert not admits(waits(5, 3000), [older, running], free=5000, jobs=4, now=NOW)
    assert admits(waits(5, 2000), [older, running], free=5000, jobs=4, now=NOW)
    assert not admits(waits(5, 2000), [older, running], free=5000, jobs=2, now=NOW), "and its slot"


def test_when_memory_is_short_all_but_the_oldest_pause_and_then_the_youngest_yields() -> None:
    oldest, middle, youngest = (Step(asked=1, expected=1, running=True, start=float(n)) for n in (1, 2, 3))
    around = {1: [middle, youngest], 2: [oldest, youngest], 3: [oldest, middle]}
    told = [brake(s, around[n], 90, 100, paused=False) for n, s in ((1, oldest), (2, middle), (3, youngest))]
    assert told == ["go", "pause", "pause"]
    told = [brake(s, around[n], 40, 100, paused=False) for n, s in ((1, oldest), (2, middle), (3, youngest))]
    assert told == ["go", "pause", "yield"]


def test_a_paused_one_goes_on_only_when_there_is_clearly_room() -> None:
    me, older = Step(asked=1, expected=1, start=2.0), Step(asked=1, expected=1, start=1.0)
    assert brake(me, [older], 150, 100, paused=True) == "pause"
    assert brake(me, [older], 150, 100, paused=False) == "go"
    assert brake(me, [older], 200, 100, paused=True) == "go"
    assert brake(me, [], 10, 100, paused=True) == "go", "alone it always runs"


def test_marks_are_shares_of_small_machines_and_bounded_on_large_ones() -> None:
    gib = 1 << 30
    assert low_mark(128 * gib) == gib < reserve(128 * gib) < 2 * gib
    assert low_mark(2 * gib) < reserve(2 * gib) < gib // 4


def test_a_ticket_says_what_it_was_written_with() -> None:
    step = Step(asked=1796049740.25, expected=77, seconds=3.5, running=True, alone=True, start=5.25, child=42)
    again = parsed(step.text().ljust(120))
    assert again.text() == step.text()
    assert (again.expected, again.running, again.alone, again.child) == (77, True, True, 42)


@pytest.mark.parametrize(
    ("cores", "memory", "peak", "together"),
    [
        (2, 24, 9.45, 2),
        (2, 24, 3.1, 2),
        (4, 16, 3.1, 4),
        (4, 16, 9.45, 1),
        (20, 128, 3.1, 20),
        (20, 128, 9.45, 12),
        (20, 128, 0.4, 20),
    ],
)
def test_cores_are_full_as_far_as_memory_goes(cores: int, memory: int, peak: float, together: int) -> None:
    """Sizes in GiB; a tenth of the memory is taken by others."""
    gib = 1 << 30
    free = memory * gib * 9 // 10 - reserve(memory * gib)
    running: list[Step] = []
    for number in range(30):
        step = Step(asked=number, expected=int(peak * gib))
        if admits(step, running, free, cores, NOW):
            running.append(Step(asked=number, expected=step.expected, running=True, start=NOW))
    assert len(running) == together
