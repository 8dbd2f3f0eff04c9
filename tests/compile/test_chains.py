"""Packages of a recipe that compile at the same time, with a real door to programs and a real report."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from builder import compile as compiling
from builder.compile import Compiled, Order, Toolchain
from builder.context import Context
from builder.errors import CompileError, Interrupted
from builder.model import Recipe, Wheel
from builder.pipeline import Built, Options, Patched, compile_share, compile_wheels
from builder.recipe import load
from builder.report import Report

ROOT = Path(__file__).parents[2]
NAMES = ["flashinfer-python", "flashinfer-jit-cache", "vllm"]
SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
Make = Callable[[Order, Context], Compiled]
Build = Callable[..., Built]


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    @contextmanager
    def nothing(*_: object) -> Iterator[Mapping[str, str]]:
        yield {}

    monkeypatch.setattr(compiling, "prepare", lambda *_, **__: cast("Toolchain", None))
    monkeypatch.setattr(compiling, "governed", nothing)
    monkeypatch.setattr(compiling, "compiler_cache", nothing)
    return load("aeon7", ROOT)


@pytest.fixture
def build(recipe: Recipe, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    def built(make: Make, jobs: str = "auto") -> Built:
        monkeypatch.setattr(compiling, "compile_package", make)
        options = Options(ROOT, tmp_path / "out", str(tmp_path / "index"), jobs=jobs)
        return compile_wheels(Patched(recipe, {}, {}), options, context)

    return built


def compiled(order: Order) -> Compiled:
    name = order.package.name
    return Compiled(Wheel(Path(name), "0", 1, name, "1", "any"), cached=name == "vllm")


def said(context: Context) -> list[str]:
    stream = context.report.stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue().splitlines()


def test_packages_of_two_sources_overlap_and_those_of_one_do_not(build: Build, context: Context) -> None:
    meeting, began = threading.Barrier(2, timeout=30), list[str]()

    def make(order: Order, _context: Context) -> Compiled:
        began.append(order.package.name)
        if order.package.name != "flashinfer-python":
            meeting.wait()
        return compiled(order)

    built = build(make)
    assert list(built.wheels) == NAMES
    assert [wheel.name for wheel in built.wheels.values()] == NAMES
    assert built.cached == {"vllm"}
    assert began.index("flashinfer-python") < began.index("flashinfer-jit-cache")
    assert {f"compile {name}" for name in NAMES} <= context.report.timings.keys()
    assert {line.partition(" in ")[0] for line in said(context)} >= {f"    compile {name}: done" for name in NAMES}


def test_as_many_units_at_once_as_asked_are_those_of_one_package(build: Build) -> None:
    running, most = [0], [0]

    def make(order: Order, _context: Context) -> Compiled:
        assert order.jobs == 4
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.05)
        running[0] -= 1
        return compiled(order)

    assert list(build(make, jobs="4").wheels) == NAMES
    assert most == [1]


def test_an_error_in_one_ends_the_program_of_the_other_and_is_told(build: Build, context: Context) -> None:
    child, seen = threading.Event(), list[BaseException]()

    def make(order: Order, context: Context) -> Compiled:
        if order.package.name != "vllm":
            assert child.wait(30)
            raise CompileError("a unit of FlashInfer failed")
        try:
            context.run([sys.executable, "-c", SLEEP], on_line=lambda _: child.set())
        except BaseException as error:
            seen.append(error)
            raise
        return compiled(order)

    start = time.monotonic()
    with pytest.raises(CompileError, match="a unit of FlashInfer failed"):
        build(make)
    assert time.monotonic() - start < 9, "it obeyed the interrupt"
    assert [type(error) for error in seen] == [Interrupted]
    endings = {line.partition(" in ")[0].strip() for line in said(context) if " in " in line}
    assert {"compile flashinfer-python: failed", "compile vllm: stopped"} <= endings
    assert not any("flashinfer-jit-cache" in line for line in said(context)), "the rest of its chain does not begin"


def test_a_share_of_a_build_has_its_packages_in_the_recipes_order_too(
    recipe: Recipe, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = threading.Barrier(2, timeout=30)

    def part(order: Order, share: compiling.Share, _context: Context) -> compiling.Shared:
        if order.package.name != "flashinfer-python":
            meeting.wait()
        return compiling.Shared((f"{order.package.name} {share}",), 2, 1.0)

    monkeypatch.setattr("builder.pipeline.fetch_sources", lambda *_: None)
    monkeypatch.setattr("builder.pipeline.apply_patches", lambda *_: Patched(recipe, {}, {}))
    monkeypatch.setattr(compiling, "compile_share", part)
    monkeypatch.setattr(compiling, "check_written", lambda *_: None)
    stream = io.StringIO()
    options = Options(ROOT, tmp_path / "out", str(tmp_path / "index"))
    on_github = replace(context, report=Report(stream, github=True))
    document = compile_share(recipe, options, on_github, compiling.Share(1, 2))
    packages = cast("list[dict[str, object]]", document["packages"])
    assert [package["units"] for package in packages] == [[f"{name} 1/2"] for name in NAMES]
    folds = [line for line in stream.getvalue().splitlines() if line.startswith("::")]
    assert folds == [f"::group::compile {recipe.name}", "::endgroup::"], "one fold for all that runs at once"


@pytest.mark.parametrize("name", ["aeon7", "smoke"])
def test_what_compiles_at_the_same_time_has_folders_of_its_own(name: str) -> None:
    """Of the canonical folder: the checkouts of a package's source and of what is brought beside it."""
    folders: dict[str, set[str]] = {}
    for package in load(name, ROOT).packages:
        beside = {"cutlass"} if package.name == "vllm" else {"flashinfer-jit"} if package.source else set()
        source = package.source or package.name
        folders.setdefault(source, {source}).update(beside, (external.name for external in package.externals))
    every = [folder for chain in folders.values() for folder in chain]
    assert len(every) == len(set(every))
