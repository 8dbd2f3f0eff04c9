"""M-RoPE positions of both model runners, for models with and without code for them."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.network, pytest.mark.slow]

Probes = dict[str, dict[str, Any]]


@pytest.mark.parametrize("request_of", ["text", "embeds"])
def test_text_has_one_position_a_token_on_every_axis(probes: Probes, request_of: str, is_patched: bool) -> None:
    found = probes[f"positions of {request_of}"]
    if is_patched:
        assert found["value"] == {"positions": [[0, 1, 2, 3, 4]] * 3, "dtype": "torch.int64", "delta": 0}
    else:
        assert (found["error"], found["message"]) == ("AssertionError", "M-RoPE support is not implemented.")


def test_images_keep_the_assertion(probes: Probes) -> None:
    found = probes["positions of images"]
    assert (found["error"], found["message"]) == ("AssertionError", "M-RoPE support is not implemented.")


def test_a_model_with_code_for_it_is_asked(probes: Probes) -> None:
    assert probes["positions by the model"]["value"] == {"positions": [[42, 42]] * 3, "delta": 0}


def test_the_second_runner_does_the_same_for_text(probes: Probes, is_patched: bool) -> None:
    found = probes["second runner, text"]
    if is_patched:
        assert found["value"] == {"rows": [[0, 1, 2]] * 3, "delta": [99, 0]}
    else:
        assert found["error"] == "AssertionError"


def test_the_second_runner_refuses_images(probes: Probes) -> None:
    assert probes["second runner, images"]["error"] == "AssertionError"
