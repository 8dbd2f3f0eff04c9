from pathlib import Path

import pytest

from builder.compile.place import canonical_root
from builder.errors import ToolchainError


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
