"""Building again: after a change, after a kill, by shares, elsewhere. The benchmarks assert; these run them small.

They need what `test_smoke` needs, and take minutes on two cores.
"""

from __future__ import annotations

import shutil

import pytest

from benchmarks import incremental, kill, shards

pytestmark = [pytest.mark.compile, pytest.mark.network, pytest.mark.slow]


def test_a_change_costs_what_it_reaches() -> None:
    incremental.main([])


def test_a_killed_build_goes_on_to_the_same_wheels() -> None:
    kill.main(["trials=3", "cold=1"])


@pytest.mark.parametrize("backend", ["redis", "s3"])
def test_shares_leave_nothing_to_compile_for_the_build_that_links(backend: str) -> None:
    if backend == "redis" and shutil.which("redis-server") is None:
        pytest.skip("no redis-server")
    shards.main([f"backend={backend}"])
