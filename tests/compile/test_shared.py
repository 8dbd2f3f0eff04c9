"""Which units a share is cut from, asked of a real ninja."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from builder.compile.job import Job
from builder.compile.native import Left
from builder.compile.ninjafile import reader, units_in
from builder.compile.shared import wanted
from builder.context import Context

BUILD = """\
rule compile
  command = cc -c $in -o $out
rule link
  command = cc $in -o $out
build a/one.cu.o: compile /src/one.cu
build a/spaced$ name.cu.o: compile /src/spaced$ name.cu
build b/two.cu.o: compile /src/two.cu
build a.so: link a/one.cu.o a/spaced$ name.cu.o
build b.so: link b/two.cu.o
build A: phony a.so
"""


@dataclass(frozen=True)
class Tools:
    """As much of a toolchain as is asked."""

    bin: Path

    def environment(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class Asked:
    """As much of a job as is asked."""

    toolchain: Tools
    context: Context


@pytest.fixture
def job(context: Context) -> Job:
    ninja = shutil.which("ninja")
    if ninja is None:
        pytest.skip("no ninja in PATH")
    return cast("Job", Asked(Tools(Path(ninja).parent), context))


@pytest.mark.parametrize(("targets", "objects"), [(("A",), 2), (("b.so",), 1), (("A", "b.so"), 3), ((), 3)])
def test_a_share_is_cut_from_what_the_targets_need(
    job: Job, tmp_path: Path, targets: tuple[str, ...], objects: int
) -> None:
    (tmp_path / "build.ninja").write_text(BUILD)
    units = units_in(BUILD, "/src", reader(tmp_path))
    found = {unit.target for unit in wanted(job, Left(tmp_path, targets), units)}
    assert len(found) == objects
    assert ("a/spaced name.cu.o" in found) == (targets != ("b.so",))
