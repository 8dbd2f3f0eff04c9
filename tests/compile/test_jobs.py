from pathlib import Path

from builder.compile.jobs import available_memory, job_count


def test_low_memfree_with_high_memavailable_counts_what_is_available(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 128000000 kB\nMemFree: 900000 kB\nMemAvailable: 110000000 kB\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 110_000_000 * 1024


def test_a_cgroup_limit_below_the_machine_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemAvailable: 110000000 kB\n")
    (tmp_path / "memory.max").write_text("16000000000\n")
    (tmp_path / "memory.current").write_text("1000000000\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 15_000_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(tmp_path / "meminfo", tmp_path) == 110_000_000 * 1024


def test_a_number_is_taken_as_it_is_and_auto_is_at_least_one() -> None:
    assert job_count("7") == 7
    assert job_count("auto") >= 1
