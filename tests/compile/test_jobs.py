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


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def proc(folder: Path, cgroup: str, mountinfo: str) -> str:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(cgroup)
    (folder / "proc/self/mountinfo").write_text(mountinfo)
    return str(folder / "proc")


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("said", "cores_there"),
    [("150000 100000", 1), ("250000 100000", 2), ("50000 100000", 1), ("max 100000", 8), ("1600000 100000", 8)],
)
def test_a_quota_of_a_container_counts_as_cores(tmp_path: Path, said: str, cores_there: int) -> None:
    where = proc(tmp_path, "0::/\n", f"30 1 0:1 / {tmp_path / 'v2'} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2" / "cpu.max").write_text(f"{said}\n")
    assert cores(where) == cores_there


@pytest.mark.usefixtures("eight")
def test_so_does_one_of_a_unit_or_job_around_us_and_the_least_counts(tmp_path: Path) -> None:
    """As of systemd-run or a batch system: the root of the mount has none, our own group and one around it have."""
    where = proc(tmp_path, "0::/batch/job/step\n", f"30 1 0:1 / {tmp_path / 'v2'} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "v2/batch/job/step").mkdir(parents=True)
    (tmp_path / "v2/batch/job/cpu.max").write_text("300000 100000\n")
    (tmp_path / "v2/batch/job/step/cpu.max").write_text("600000 100000\n")
    assert cores(where) == 3


@pytest.mark.usefixtures("eight")
def test_so_does_one_of_version_1(tmp_path: Path) -> None:
    mounts = f"30 1 0:1 / {tmp_path / 'v1'} rw - cgroup cgroup rw,cpu,cpuacct\n"
    where = proc(tmp_path, "4:cpu,cpuacct:/a\n3:cpuset:/b\n", mounts)
    for place, quota in (("v1", -1), ("v1/a", 400_000)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (tmp_path / place / "cpu.cfs_period_us").write_text("100000\n")
    assert cores(where) == 4


@pytest.mark.usefixtures("eight")
def test_without_any_it_is_what_we_may_run_on(tmp_path: Path) -> None:
    assert cores(str(tmp_path / "absent")) == 8
