"""What is free, by the machine and by cgroups of both versions, from files as the kernel writes them."""

from pathlib import Path

from builder.compile.gate.memory import Memory

MB = 1 << 20
MEMINFO = "MemTotal:       128000 kB\nMemFree:          900 kB\nMemAvailable:   110000 kB\n"


def proc(root: Path, cgroup: str, mountinfo: str) -> str:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    (root / "proc/self/cgroup").write_text(cgroup)
    (root / "proc/self/mountinfo").write_text(mountinfo)
    return str(root / "proc")


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def test_what_is_available_counts_not_what_is_unused(tmp_path: Path) -> None:
    assert Memory(proc(tmp_path, "0::/\n", "")).now() == (110_000 * 1024, 128_000 * 1024)


def test_a_cgroup_of_version_2_counts_with_the_cache_that_it_can_drop(tmp_path: Path) -> None:
    mount = tmp_path / "v2"
    where = proc(tmp_path, "0::/box/build\n", f"30 1 0:1 / {mount} rw - cgroup2 cgroup2 rw\n")
    group(mount / "box/build", memory__max="max", memory__current=str(90 * MB), memory__stat="inactive_file 0")
    stat = f"anon {40 * MB}\ninactive_file {20 * MB}\nactive_file {10 * MB}"
    group(mount / "box", memory__max=str(100 * MB), memory__current=str(90 * MB), memory__stat=stat)
    assert Memory(where).now() == (35 * MB, 100 * MB)


def test_a_mark_above_which_a_group_is_held_back_is_a_limit_too(tmp_path: Path) -> None:
    """memory.high kills nothing: every allocation above it waits, and a build there never ends."""
    mount = tmp_path / "v2"
    where = proc(tmp_path, "0::/slice\n", f"30 1 0:1 / {mount} rw - cgroup2 cgroup2 rw\n")
    limits = {"memory__max": str(100 * MB), "memory__high": str(80 * MB)}
    group(mount / "slice", memory__current=str(50 * MB), memory__stat="inactive_file 0", **limits)
    assert Memory(where).now() == (30 * MB, 80 * MB)


def test_a_cgroup_of_version_1_counts_and_its_unlimited_parents_do_not(tmp_path: Path) -> None:
    mount = tmp_path / "v1"
    where = proc(tmp_path, "4:memory:/a/b\n0::/\n", f"30 1 0:1 / {mount} rw,nosuid - cgroup cgroup rw,memory\n")
    none = "9223372036854771712"
    group(mount, memory__limit_in_bytes=none, memory__usage_in_bytes="1")
    group(mount / "a", memory__limit_in_bytes=none, memory__usage_in_bytes="1")
    stat = f"inactive_file 1\ntotal_inactive_file {4 * MB}\ntotal_active_file {2 * MB}"
    limit, used = str(60 * MB), str(50 * MB)
    group(mount / "a/b", memory__limit_in_bytes=limit, memory__usage_in_bytes=used, memory__stat=stat)
    assert Memory(where).now() == (15 * MB, 60 * MB)


def test_a_container_that_sees_its_own_group_as_the_mount_is_understood(tmp_path: Path) -> None:
    mount = tmp_path / "v2"
    where = proc(tmp_path, "0::/docker/abc\n", f"30 1 0:1 /docker/abc {mount} ro - cgroup2 cgroup2 rw\n")
    group(mount, memory__max=str(16 * MB), memory__current=str(MB))
    assert Memory(where).now() == (15 * MB, 16 * MB)


def test_a_group_that_is_over_its_limit_leaves_nothing(tmp_path: Path) -> None:
    mount = tmp_path / "v2"
    where = proc(tmp_path, "0::/\n", f"30 1 0:1 / {mount} rw - cgroup2 cgroup2 rw\n")
    group(mount, memory__max=str(16 * MB), memory__current=str(17 * MB))
    assert Memory(where).now()[0] == 0


def test_this_machine_has_some() -> None:
    available, total = Memory().now()
    assert 0 < available <= total
