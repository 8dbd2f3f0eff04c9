import io
from pathlib import Path

import pytest

from builder.commands import Request, _share_summary, build
from builder.errors import UsageError
from builder.report import Report


def asked(tmp_path: Path, **options: str) -> Request:
    chosen = {"recipe": "smoke", "store": str(tmp_path / "store"), "out": str(tmp_path / "out")}
    return Request((), chosen | options, Report(io.StringIO()))


@pytest.mark.parametrize("shard", ["0/4", "5/4", "x"])
def test_what_is_no_share_is_refused_before_anything_is_made(shard: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no share"):
        build(asked(tmp_path, shard=shard))
    assert list(tmp_path.iterdir()) == []


def test_a_share_takes_no_index(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="publishes nothing"):
        build(asked(tmp_path, shard="1/2", index="s3://bucket"))


def test_the_summary_names_the_units_and_the_next_step() -> None:
    document = {
        "recipe": "aeon7",
        "shard": {"number": 2, "count": 4},
        "packages": [
            {"name": "flashinfer-python", "units": [], "of": 0, "cpu_seconds": 0},
            {"name": "vllm", "units": ["_C/a.o", "_C/b.o"], "of": 9, "cpu_seconds": 7},
        ],
        "counts": {"cache hits": 1, "cache misses": 3},
        "units": {"compiled": 2, "hits": 0, "peak_bytes": 2_000_000_000, "killed": ["csrc/a.cu"]},
        "seconds": {"total": 5.0},
        "page": "logs/build.html",
        "trace": "logs/trace.json",
    }
    text = _share_summary(document)
    assert "share 2 of 4" in text
    assert "vllm: 2 of 9 units" in text
    assert "_C/b.o" in text
    assert "flashinfer-python: nothing to compile" in text
    assert "1 hit (25%), 3 misses" in text
    assert "largest step 2.00 GB" in text
    assert "tried again: csrc/a.cu" in text
    assert "without shard=" in text
