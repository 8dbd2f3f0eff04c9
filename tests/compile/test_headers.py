"""Objects name headers by the canonical path, wherever its links lead. Needs a C++ compiler."""

import shutil
import subprocess
from pathlib import Path

import pytest

from builder.compile.host import AS_NAMED


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder of headers whose name is longer than that of the folder that it links to."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s/where.h").write_text("inline const char *where() { return __FILE__; }\n")
    (tmp_path / "canonical-folder").symlink_to(tmp_path / "s")
    (tmp_path / "x.cpp").write_text("#include <where.h>\nconst char *here = where();\n")
    return tmp_path / "canonical-folder"


@pytest.mark.parametrize(("flags", "named"), [([], "s/where.h"), ([AS_NAMED], "canonical-folder/where.h")])
def test_a_header_is_named_as_it_was_asked_for(linked: Path, flags: list[str], named: str) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ in PATH")
    source = linked.parent / "x.cpp"
    argv = [compiler, "-E", "-P", *flags, "-isystem", str(linked), str(source)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert f'"{linked.parent / named}"' in said
