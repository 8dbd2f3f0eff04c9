"""Headers: objects name them by the canonical path, and Python's serve a cross compiler. Needs a C++ compiler."""

import io
import platform
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from builder.compile.headers import header_tree, sources
from builder.compile.host import AS_NAMED
from builder.context import Context
from builder.report import Report
from builder.store import Store


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


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Python's headers as Debian and Ubuntu lay them out, for a machine that is not compiled for."""
    folder, own = tmp_path / "include/python3.9", tmp_path / "include/here-linux-gnu/python3.9"
    (folder / "cpython").mkdir(parents=True)
    own.mkdir(parents=True)
    (folder / "Python.h").write_text('#include "pyconfig.h"\n#include "cpython/object.h"\n')
    (folder / "cpython/object.h").write_text("inline int size() { return SIZEOF_LONG; }\n")
    (folder / "pyconfig.h").write_text("#include <there-linux-gnu/python3.9/pyconfig.h>\n")
    (own / "pyconfig.h").write_text("#define SIZEOF_LONG 8\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(folder))
    monkeypatch.setattr(sysconfig, "get_config_var", {"MULTIARCH": "here-linux-gnu"}.get)
    return folder


def test_debians_headers_serve_a_cross_compiler(debian: Path, tmp_path: Path) -> None:
    context = Context(Store(tmp_path / "store"), tmp_path / "logs", report=Report(io.StringIO(), quiet=True))
    tree = header_tree(context)
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ in PATH")
    source = tmp_path / "x.cpp"
    source.write_text("#include <Python.h>\nstatic_assert(sizeof(long) == SIZEOF_LONG);\n")
    argv = [compiler, "-fsyntax-only", "-std=c++17"]
    assert subprocess.run([*argv, "-I", str(debian), str(source)], capture_output=True, check=False).returncode != 0
    subprocess.run([*argv, "-I", str(tree), str(source)], check=True)
    assert header_tree(context) == tree
    (debian / "Python.h").write_text("changed\n")
    assert header_tree(context) != tree


@pytest.mark.parametrize("target", ["aarch64", "x86_64"])
def test_this_machines_own_serve_too(tmp_path: Path, target: str) -> None:
    """On a Debian with python3-dev and a compiler for the target."""
    compiler = shutil.which(f"{target}-linux-gnu-g++")
    folder = next(iter(sorted(Path("/usr/include").glob("python3.*/"))), None)
    if compiler is None or folder is None or not (folder / "Python.h").is_file():
        pytest.skip("no such compiler, or no python3-dev")
    for name, path in sources(folder, f"{platform.machine()}-linux-gnu").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, tmp_path / name)
    source = tmp_path / "x.cpp"
    source.write_text("#include <Python.h>\nstatic_assert(sizeof(long) == SIZEOF_LONG);\n")
    subprocess.run([compiler, "-fsyntax-only", "-std=c++17", "-I", str(tmp_path), str(source)], check=True)
