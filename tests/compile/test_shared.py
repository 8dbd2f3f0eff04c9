"""Which units a share is cut from, and that each is made, asked of a real ninja."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from builder.compile.job import Job
from builder.compile.native import Left
from builder.compile.ninjafile import reader, units_in
from builder.compile.shard import Share
from builder.compile.shared import Shared, compile_units, wanted
from builder.compile.units import UnitWatch
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
    jobs: int = 1


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


COUNTED = """\
rule compile
  command = echo $out >> made && cp $in $out
build one.cu.o: compile one.cu
build two.cu.o: compile two.cu
build three.cu.o: compile three.cu
"""


def test_objects_that_are_there_already_go_through_the_cache_all_the_same_and_the_rest_stays(
    job: Job, tmp_path: Path
) -> None:
    """What an earlier build left is in some other storage, or in none: a share that skipped it would write nothing."""
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "build.ninja").write_text(COUNTED)
    for name in ("one", "two", "three"):
        (folder / f"{name}.cu").touch()

    def made(share: str) -> tuple[Shared, list[str]]:
        (folder / "made").write_text("")
        watch = UnitWatch(job.context.report, "test")
        done = compile_units(job, Share.parse(share), Left(folder, ()), folder, env={}, watch=watch)
        return done, sorted((folder / "made").read_text().split())

    assert made("1/1")[1] == ["one.cu.o", "three.cu.o", "two.cu.o"]
    done, again = made("1/2")
    assert again == sorted(done.units)
    assert len(again) == 2
    other, rest = made("2/2")
    assert rest == list(other.units)
    assert set(again) | set(rest) == {"one.cu.o", "two.cu.o", "three.cu.o"}
    job.context.run([job.toolchain.bin / "ninja", "-C", folder])
    assert sorted((folder / "made").read_text().split()) == rest, "a build of the whole has nothing left to do"
