import io
import threading
from pathlib import Path

import pytest

from builder.compile.place import CANONICAL, _asked, canonical_root, holding
from builder.context import Context
from builder.errors import ToolchainError
from tests.soon import soon


def test_it_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    assert canonical_root(tmp_path / "root").stat().st_mode & 0o777 == 0o700


def test_one_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir(mode=0o777)
    (tmp_path / "root").chmod(0o777)
    with pytest.raises(ToolchainError, match="not safely ours"):
        canonical_root(tmp_path / "root")


def test_a_link_to_somewhere_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "root").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolchainError, match="not safely ours"):
        canonical_root(tmp_path / "root")


@pytest.mark.parametrize("said", ["build", "./build", "~/build", "/srv/my build", "/srv/a:b", "/srv/a;b", "/srv/$a"])
def test_a_setting_that_no_build_can_work_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_WHEELS_ROOT", said)
    with pytest.raises(ToolchainError, match="is no place to compile in"):
        canonical_root()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_setting_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty path would be the folder that one stands in."""
    monkeypatch.setenv("SPARK_WHEELS_ROOT", "")
    assert _asked() == CANONICAL


def test_a_second_build_waits_and_says_for_what(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_WHEELS_ROOT", str(tmp_path / "root"))
    order: list[str] = []

    def second() -> None:
        with holding("build-vllm", context):
            order.append("second")

    with holding("build-vllm", context):
        thread = threading.Thread(target=second)
        thread.start()
        assert soon(lambda: "waiting for another build that holds build-vllm" in said(context))
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def said(context: Context) -> str:
    stream = context.report.stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()
