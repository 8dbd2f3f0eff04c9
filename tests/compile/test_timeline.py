import json
import threading
from pathlib import Path

import pytest

from builder.compile import trace
from builder.compile.gate.step import json_line
from builder.compile.timeline import (
    Made,
    Run,
    Step,
    Timeline,
    advice,
    counts,
    critical,
    made_in,
    made_line,
    preprocessing_in,
    steps_in,
    timeline,
    trace_events,
)
from builder.compile.trace import recorded, render, write_trace

GB = 1_000_000_000
NINJA = """build CMakeFiles/m.dir/csrc/a.cu.o: cuda /src/csrc/a.cu
build CMakeFiles/m.dir/csrc/b.cu.o: cuda /src/csrc/b.cu
build m.so: link CMakeFiles/m.dir/csrc/a.cu.o CMakeFiles/m.dir/csrc/b.cu.o
"""


def step(
    unit: str, start: float, end: float, peak: int = GB, *, waited: float = 0.0, made_for: str = "", killed: str = ""
) -> Step:
    return Step(unit, "ptxas", start - waited, start, end, end - start, peak, object=made_for, killed=killed)


def made(unit: str, start: float, end: float) -> Made:
    target = f"CMakeFiles/m.dir/{unit}.o" if unit.endswith(".cu") else unit
    return Made("vllm", target, unit, start, end)


def test_a_unit_without_steps_came_from_the_cache() -> None:
    found = timeline(
        [made("csrc/a.cu", 0, 10), made("csrc/b.cu", 0, 1), made("m.so", 10, 11)], [step("csrc/a.cu", 1, 9)]
    )
    states = {run.unit: run.state for run in found.runs}
    assert states == {"csrc/a.cu": "compiled", "csrc/b.cu": "hit", "m.so": "link"}
    told = counts(found)
    assert (told["compiled"], told["hits"], told["links"], told["peak_bytes"]) == (1, 1, 1, GB)
    assert (told["cpu_seconds"], told["preprocessing_seconds"]) == (8, 0)


def test_steps_of_the_same_source_go_to_the_unit_that_ran_them() -> None:
    """FlashInfer compiles one source for many modules: the object's name or else the time tells them apart."""
    first, second = Made("fi", "m1/x.cuda.o", "csrc/x.cu", 0, 5), Made("fi", "m2/x.cuda.o", "csrc/x.cu", 6, 9)
    found = timeline([first, second], [step("csrc/x.cu", 1, 4), step("csrc/x.cu", 7, 8), step("csrc/x.cu", 7, 8)])
    assert {run.target: len(run.steps) for run in found.runs} == {"m1/x.cuda.o": 1, "m2/x.cuda.o": 2}
    at_once = [Made("fi", "m1/x.cuda.o", "csrc/x.cu", 0, 5), Made("fi", "m2/x.cuda.o", "csrc/x.cu", 0, 5)]
    named = timeline(at_once, [step("csrc/x.cu", 1, 4, made_for="m2/x.cuda.o")])
    assert {run.target: run.state for run in named.runs} == {"m1/x.cuda.o": "hit", "m2/x.cuda.o": "compiled"}


def test_what_never_finished_is_shown_as_such() -> None:
    found = timeline([], [step("csrc/a.cu", 0, 3, killed="kernel"), step("csrc/a.cu", 3, 5)])
    assert [(run.state, run.unit, run.kills) for run in found.runs] == [("failed", "csrc/a.cu", 1)]
    assert counts(found)["killed"] == ["csrc/a.cu"]


def test_what_configure_tries_out_is_no_unit() -> None:
    trials = [
        "CMakeFiles/cmTC_40b24.dir/CMakeCXXCompilerABI.cpp.o",
        "CMakeFiles/3.31/CompilerIdCUDA/CMakeCUDACompilerId.cu",
    ]
    assert timeline([], [step("x.cpp", 0, 1, made_for=name) for name in trials]).runs == ()


def test_runs_at_the_same_time_have_slots_of_their_own_and_slots_are_used_again() -> None:
    found = timeline([made("a.cu", 0, 10), made("b.cu", 0, 4), made("c.cu", 4, 9)], [])
    assert {run.unit: run.slot for run in found.runs} == {"a.cu": 1, "b.cu": 2, "c.cu": 2}
    assert found.slots == 2
    assert found.wall == 10


def test_memory_is_the_sum_of_the_steps_at_each_moment() -> None:
    found = timeline([], [step("a.cu", 0, 4, 3 * GB), step("b.cu", 2, 6, 2 * GB)])
    assert list(found.memory) == [(0, 3 * GB), (2, 5 * GB), (4, 2 * GB), (6, 0)]
    assert found.peak == 5 * GB


def test_the_critical_path_goes_back_from_the_last_to_end() -> None:
    runs = [made("a.cu", 0, 3), made("b.cu", 0, 8), made("c.cu", 3, 6), made("m.so", 8, 9)]
    assert [run.unit for run in critical(timeline(runs, []))] == ["b.cu", "m.so"]


@pytest.mark.parametrize(
    ("runs", "steps", "said"),
    [
        ([made("a.cu", 0, 10)], [], "No compiler ran"),
        ([made("a.cu", 0, 10), made("b.cu", 0, 1)], [step("a.cu", 0, 10)], "as long as a.cu alone"),
        (
            [made("a.cu", 0, 7), made("b.cu", 0, 7), made("c.cu", 7, 10)],
            [step("a.cu", 6, 7, 9 * GB, waited=6), step("c.cu", 8, 9)],
            "waited 6.0 s for memory; the largest took 9.00 GB",
        ),
        ([made("a.cu", 0, 5), made("b.cu", 0, 5), made("c.cu", 5, 10)], [step("c.cu", 6, 9)], "c.cu began after 5.0 s"),
        (
            [made("a.cu", 0, 5), made("b.cu", 0, 5), made("c.cu", 5, 10), made("d.cu", 5, 10)],
            [step("d.cu", 6, 9)],
            "All cores",
        ),
        (
            [made("a.cu", 0, 5), made("b.cu", 0, 5), made("c.cu", 0, 10), made("d.cu", 0, 10)],
            [step("a.cu", 0, 5), step("b.cu", 0, 5), step("c.cu", 5, 10, waited=5), step("d.cu", 5, 10, waited=5)],
            "All cores",
        ),
    ],
)
def test_one_sentence_says_what_would_shorten_the_build(runs: list[Made], steps: list[Step], said: str) -> None:
    """The last: of two packages at once, more units are in hand than cores, and wait for nothing but a core."""
    assert said in advice(timeline(runs, steps), 2)


def test_a_trace_has_a_track_a_slot_and_no_events_that_cross_on_one() -> None:
    runs = [made("a.cu", 100, 110), made("b.cu", 100, 104)]
    steps = [step("a.cu", 101, 105), step("a.cu", 103, 109), step("b.cu", 101, 103.9)]
    document = trace_events(timeline(runs, steps))
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {event["ts"] for event in events if event["name"] == "a.cu"} == {0}
    for one in events:
        for other in events:
            apart = one["ts"] + one["dur"] <= other["ts"] or other["ts"] + other["dur"] <= one["ts"]
            inside = one["ts"] <= other["ts"] and other["ts"] + other["dur"] <= one["ts"] + one["dur"]
            outside = other["ts"] <= one["ts"] and one["ts"] + one["dur"] <= other["ts"] + other["dur"]
            assert one["tid"] != other["tid"] or apart or inside or outside
    names = {event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert {"slot 1", "slot 2", "slot 1, beside it 1"} <= names
    assert [e["args"]["bytes"] for e in document["traceEvents"] if e["ph"] == "C"][-1] == 0


def test_logs_are_read_line_by_line_and_a_torn_line_costs_only_itself() -> None:
    one = made("csrc/a.cu", 1, 2)
    assert made_in(made_line(one) + '{"package": "v') == (one,)
    good = {"unit": "a.cu", "tool": "cicc", "asked": 1, "start": 2, "end": 3, "cpu_seconds": 1, "peak_bytes": 5}
    (read,) = steps_in(f'{json.dumps(good)}\n{{"unit": 1\n[]\n"x"\n')
    assert (read.unit, read.waited, read.attempt, read.killed) == ("a.cu", 1, 1, "")


def test_preprocessing_is_summed_and_a_torn_line_costs_only_itself() -> None:
    line = json_line({"unit": "a.cu", "start": 1.0, "end": 2.0, "cpu_seconds": 0.75}).decode()
    assert preprocessing_in(line + line + line[:-4]) == 1.5
    found = timeline([made("a.cu", 0, 10)], [step("a.cu", 1, 9)], 12.0)
    assert counts(found)["preprocessing_seconds"] == 12
    assert "12 s of preprocessing" in render(found, "")


def test_the_page_shows_each_unit_and_no_name_can_break_it() -> None:
    page = render(timeline([made("<b>&x.cu", 0, 10)], [step("<b>&x.cu", 1, 9)]), "a <title>")
    assert "&lt;b&gt;&amp;x.cu" in page
    assert "<b>&x" not in page
    assert "a &lt;title&gt;" in page
    assert page.count('class="run') == 1
    assert "http" not in page.replace("http-equiv", "")


def test_the_critical_path_is_found_once_and_marked_on_its_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def once(found: Timeline) -> tuple[Run, ...]:
        asked.append(1)
        return critical(found)

    monkeypatch.setattr(trace, "critical", once)
    page = render(timeline([made("a.cu", 0, 3), made("b.cu", 0, 8), made("m.so", 8, 9)], []), "t")
    assert asked == [1]
    assert page.count(' critical"') == 2
    assert page.count('class="run hit critical"') == 1
    assert "anything else does not shorten" not in page


def test_only_what_this_build_finished_is_recorded_and_both_files_are_written(tmp_path: Path) -> None:
    build, logs = tmp_path / "build", tmp_path / "logs"
    build.mkdir()
    (build / "build.ninja").write_text(NINJA)
    old = "# ninja log v7\n1\t9\t1000000000\tCMakeFiles/m.dir/csrc/a.cu.o\tff\n"
    new = "1\t4001\t8000000000\tCMakeFiles/m.dir/csrc/b.cu.o\tff\n1\t501\t12000000000\tm.so\tff\n1\t2\t3\tother\tff\n"
    (build / ".ninja_log").write_text(old)
    with recorded(build, "vllm", Path("/src"), logs):
        (build / ".ninja_log").write_text(old + new)
    (logs / "steps.jsonl").write_text('{"unit": "csrc/b.cu", "tool": "cicc", "asked": 8, "start": 8.1, "end": 11, ')
    traced = write_trace(logs, "smoke")
    assert traced is not None
    assert (traced.units["compiled"], traced.units["hits"], traced.units["links"]) == (0, 1, 1)
    assert json.loads(traced.trace.read_text())["traceEvents"]
    assert "csrc/b.cu" in traced.page.read_text()
    assert "csrc/a.cu" not in traced.page.read_text()


def test_two_packages_record_whole_lines_at_the_same_time(tmp_path: Path) -> None:
    meeting = threading.Barrier(2, timeout=30)

    def build(package: str) -> None:
        folder = tmp_path / package
        folder.mkdir()
        (folder / "build.ninja").write_text("".join(f"build {n:0999d}.cu.o: cuda /src/{n}.cu\n" for n in range(40)))
        with recorded(folder, package, Path("/src"), tmp_path / "logs"):
            lines = (f"1\t{n}\t1000000000\t{n:0999d}.cu.o\tff\n" for n in range(2, 40))
            (folder / ".ninja_log").write_text(f"# ninja log v7\n{''.join(lines)}")
            meeting.wait()

    threads = [threading.Thread(target=build, args=(name,)) for name in ("vllm", "flashinfer-jit-cache")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = (tmp_path / "logs/made.jsonl").read_text()
    assert len(made_in(text)) == text.count("\n") == 2 * 38


def test_what_a_failing_build_finished_is_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(NINJA)

    def build() -> None:
        with recorded(tmp_path, "vllm", Path("/src"), tmp_path / "logs"):
            (tmp_path / ".ninja_log").write_text("# ninja log v7\n1\t9\t1000000000\tm.so\tff\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        build()
    assert [each.unit for each in made_in((tmp_path / "logs/made.jsonl").read_text())] == ["m.so"]


def test_a_build_that_compiled_nothing_has_no_picture(tmp_path: Path) -> None:
    assert write_trace(tmp_path, "smoke") is None
