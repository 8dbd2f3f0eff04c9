"""The root: a linear-attention layer whose model nobody declared hybrid."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.mark.parametrize(("mode", "size"), [("none", 4096), ("align", 544)])
def test_a_state_gets_the_block_size_that_the_hybrid_set_up_would_give(
    probes: dict[str, dict[str, Any]], mode: str, size: int, is_patched: bool
) -> None:
    found = probes[f"layer {mode}"]
    if is_patched:
        assert found == {"value": size}
    else:
        assert found["error"] == "AssertionError"
        assert "assert mamba_block_size is not None" in found["trace"]
