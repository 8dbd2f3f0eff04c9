"""What a build took is there for the next one."""

import io
import json
from contextlib import suppress
from pathlib import Path

import pytest

from builder.compile import learned as learning
from builder.compile.gate.task import Task, expectation
from builder.compile.governed import governed, killed
from builder.compile.learned import Cost, Key, costs_in, learn, learned, lines, merged
from builder.context import Context
from builder.report import Report
from builder.store import Store


def step(**other: object) -> str:
    plain = {"tool": "cicc", "unit": "csrc/x.cu", "arch": "sm_121a", "peak_bytes": 100, "cpu_seconds": 2.0, "exit": 0}
    return json.dumps(plain | other)


KEY = Key("cicc", "csrc/x.cu", "sm_121a")


def test_the_next_build_expects_what_the_last_one_took(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert learn(store, [step(peak_bytes=7_000_000), step(tool="ptxas", peak_bytes=300)]) == 2
    table = lines(learned(store))
    source = tmp_path / "in.ii"
    source.write_text("x")
    task = Task("cicc", "/cicc", ["-arch", "compute_121a", str(source)], "CMakeFiles/_C.dir/csrc/x.cu.o")
    assert expectation(task, table) == (7_350_000, 2.0)


def test_one_arch_stands_in_for_another_and_nothing_for_another_unit(tmp_path: Path) -> None:
    table = lines({KEY: Cost(1000, 2.0)})
    source = tmp_path / "in.ii"
    source.write_text("x" * 1000)
    near = Task("cicc", "/cicc", ["-arch", "compute_80", str(source)], "t.dir/csrc/x.cu.o")
    assert expectation(near, table)[0] == 1050
    other = Task("cicc", "/cicc", ["-arch", "compute_80", str(source)], "t.dir/csrc/y.cu.o")
    assert expectation(other, table)[0] > 600 << 20


def test_a_killed_step_took_at_least_what_it_had_and_lowers_nothing(tmp_path: Path) -> None:
    log = [step(peak_bytes=500), step(peak_bytes=200, exit=-9), "{cut sho", "[]", step(peak_bytes="?")]
    assert costs_in(log, {}) == {KEY: Cost(500, 2.0)}
    assert costs_in([step(peak_bytes=200, exit=-9)], {}) == {KEY: Cost(200, 2.0)}
    store = Store(tmp_path)
    learn(store, [step(peak_bytes=9000)])
    learn(store, [step(peak_bytes=200, exit=4)])
    assert learned(store) == {KEY: Cost(9000, 2.0)}
    learn(store, [step(peak_bytes=300)])
    assert learned(store) == {KEY: Cost(300, 2.0)}, "it became smaller"


def test_a_new_build_replaces_what_was_known_and_the_oldest_go_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learning, "_KEPT", 2)
    a, b, c = (Key("cicc", name, "") for name in "abc")
    known = {a: Cost(1, 1), b: Cost(1, 1)}
    assert merged(known, {a: Cost(9, 9)}) == {b: Cost(1, 1), a: Cost(9, 9)}
    assert list(merged(known, {c: Cost(1, 1)})) == [b, c]


def test_damage_in_the_store_counts_as_nothing_learned(tmp_path: Path) -> None:
    store = Store(tmp_path)
    learn(store, [step()])
    (place,) = (tmp_path / "records/learned").iterdir()
    place.write_text('{"steps": [1, ["cicc"], ["cicc", "u", "", 5, 1.5]]}')
    assert learned(store) == {Key("cicc", "u", ""): Cost(5, 1.5)}
    place.write_text("{")
    assert learned(store) == {}


def test_a_failed_build_teaches_too_and_kills_are_told(tmp_path: Path) -> None:
    said = io.StringIO()
    context = Context(Store(tmp_path / "store"), tmp_path / "logs", report=Report(said, github=False))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/steps.jsonl").write_text(step(unit="old") + "\n")
    with suppress(RuntimeError), governed(context) as env:
        killed_first = step(unit="csrc/big.cu", exit=-9, killed="kernel", peak_bytes=9_450_000_000)
        with Path(env["SPARK_GATE_LOG"]).open("a") as log:
            log.write(f"{step()}\n{killed_first}\n")
        raise RuntimeError
    assert set(learned(context.store)) == {KEY, Key("cicc", "csrc/big.cu", "sm_121a")}
    assert "csrc/big.cu: cicc sm_121a was killed for memory at 9.45 GB, and tried again alone" in said.getvalue()
    assert "paged_attention" in Path(env["SPARK_GATE_LEARNED"]).read_text()


def test_who_ended_a_step_is_told_apart() -> None:
    assert "gave 100 B back" in killed([step(killed="gate")])[0]
    assert "though it ran alone" in killed([step(killed="kernel", alone=1)])[0]
    assert killed([step(killed=""), "torn"]) == []


def test_the_workflow_carries_what_was_learned_from_one_run_to_the_next(tmp_path: Path) -> None:
    learn(Store(tmp_path / ".store"), [step()])
    (place,) = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("steps.json")}
    workflow = (Path(__file__).parents[2] / ".github/workflows/build.yml").read_text()
    assert workflow.count(f"path: {place}\n") == 2, "restored"
    assert workflow.count(f"path: {place}, ") == 2, "saved"
    assert "SPARK_WHEELS_STORE: ${{ github.workspace }}/.store\n" in workflow
