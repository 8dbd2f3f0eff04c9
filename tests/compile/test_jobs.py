import os
from pathlib import Path

import pytest

from builder.compile.jobs import cores, job_count, units_in_hand, with_waiting


@pytest.mark.parametrize(("running", "in_hand"), [(1, 2), (2, 3), (4, 6), (20, 30)])
def test_some_wait_for_memory_beside_those_that_run(running: int, in_hand: int) -> None:
    assert with_waiting(running) == in_hand


def test_auto_is_every_core_and_a_number_is_taken_as_it_is() -> None:
    assert job_count("auto") == cores()
    assert units_in_hand("auto") == with_waiting(cores())
    assert (job_count("7"), units_in_hand("7")) == (7, 7)


def test_a_quota_of_a_container_counts_as_cores(tmp_path: Path) -> None:
    own = len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cores(tmp_path / "cpu.max") == 1
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert cores(tmp_path / "cpu.max") == 1, "at least one"
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores(tmp_path / "cpu.max") == own
    assert cores(tmp_path / "absent") == own
