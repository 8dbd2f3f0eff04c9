"""What a change costs: nothing, one Python file, one .cu, and an empty machine with a warm cache at another path.

Run with `python -m benchmarks.incremental [recipe=tiny] [package=flashinfer-python] [cu=csrc/xqa/xqa_wrapper.cu]
[store=PATH] [jobs=N]`; needs the toolchain in the caller's store (any build fetches it). Wall seconds, interpreter
start included; upstream's own rebuild is its PEP 517 backend in the same checkout, objects, cache and jobs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.lab import HERE, Built, Lab, laboratory, options_of, say

PYTHON_FILE = "vllm/logger.py"
REMARK = "\n# An edit for a measurement: no compiler has to run.\n"
CODE = "\nnamespace { [[maybe_unused]] constexpr int spark_wheels_edit = 1; }\n"


def main(argv: list[str]) -> None:
    """Measure each change once, and print a line for each."""
    options = options_of(argv)
    recipe, package = options.get("recipe", "tiny"), options.get("package", "flashinfer-python")
    source = options.get("cu", "csrc/xqa/xqa_wrapper.cu")
    with laboratory(options) as lab:
        checkout, store = lab.checkout("one"), lab.store("store")
        first = _told("from empty folders and an empty cache", lab.build(checkout, store, recipe))
        say(f"nothing changed (aim: < 1 s): {lab.build(checkout, store, recipe).seconds:.2f} s")
        _python_only(lab, checkout, store, recipe)
        _one_cu(lab, checkout, store, recipe, package, source, first)
        _elsewhere(lab, store, recipe, package, source)


def _python_only(lab: Lab, checkout: Path, store: Path, recipe: str) -> None:
    lab.edit(checkout, store, PYTHON_FILE, lambda text: text + REMARK)
    ours = _told("one Python file changed (aim: < 10 s)", lab.build(checkout, store, recipe))
    units = ours.document["units"]
    assert not units or units["compiled"] == units["hits"] == 0, units
    theirs = _upstream(lab, checkout, store, recipe)
    say(f"    upstream's own rebuild in the same tree, unverified: {theirs:.1f} s; ratio {theirs / ours.seconds:.1f}")


def _one_cu(lab: Lab, checkout: Path, store: Path, recipe: str, package: str, source: str, first: Built) -> None:
    expected = _including(lab, package, source)
    lab.edit(checkout, store, source, lambda text: text + CODE, package)
    # vLLM's wheel names FlashInfer's version, and its own does not change with it: the first index would refuse it.
    again = _told(f"{source} changed", lab.build(checkout, store, recipe, f"index={lab.folder / 'index'}"))
    compiled = again.document["units"]["compiled"]
    say(f"    units that include it by ninja's own deps: {len(expected)}; compiled: {compiled}")
    say(f"    a rebuild without a cache: {first.seconds:.1f} s; ratio {first.seconds / again.seconds:.1f}")
    assert compiled == len(expected), (compiled, sorted(expected))


def _elsewhere(lab: Lab, store: Path, recipe: str, package: str, source: str) -> None:
    """Another checkout, another store that has the compiler cache alone, an empty canonical folder."""
    other, fresh = lab.checkout("two"), lab.store("other-store")
    shutil.copytree(store / "sccache", fresh / "sccache")
    lab.edit(other, store, PYTHON_FILE, lambda text: text + REMARK)
    lab.edit(other, store, source, lambda text: text + CODE, package)
    for name in ("vllm", package):
        shutil.rmtree(fresh / "git" / f"{name}.git")
        shutil.copytree(store / "git" / f"{name}.git", fresh / "git" / f"{name}.git")
    lab.forget_work()
    built = _told("empty folders, warm cache, other paths (aim: < 90 s)", lab.build(other, fresh, recipe))
    assert built.hits[1] == 0, built.hits


def _including(lab: Lab, package: str, source: str) -> set[str]:
    """The objects that depend on a file, by ninja's own record."""
    name = "flashinfer-jit" if package.startswith("flashinfer") else "vllm"
    folder = lab.root / "src" / name
    build = folder if name == "flashinfer-jit" else next(folder.glob("build/temp.*"))
    (ninja,) = (lab.root / "toolchain").glob("*/bin/ninja")
    said = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    path = str(lab.root / "src" / package / source)
    found, target = set(), ""
    for line in said.splitlines():
        if line and not line.startswith(" "):
            target = line.split(":")[0]
        elif line.strip() == path:
            found.add(target)
    return found


def _upstream(lab: Lab, checkout: Path, store: Path, recipe: str) -> float:
    argv = [sys.executable, str(Path(__file__)), "--upstream", recipe, str(store), lab.jobs]
    env = lab.settings(checkout, {"PYTHONPATH": f"{checkout}:{HERE}"})
    done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return float(done.stdout)


def _upstream_here(recipe_name: str, store: str, jobs: str) -> None:
    """Upstream's backend as upstream runs it: configure, ninja, setuptools' own compressed wheel."""
    from builder import compile as compiling
    from builder import pipeline
    from builder.commands import ROOT
    from builder.compile import package as packages
    from builder.compile import vllm
    from builder.compile.pep517 import build_wheel
    from builder.compile.units import UnitWatch
    from builder.context import Context
    from builder.recipe import load, locked
    from builder.report import Report
    from builder.store import Store

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        context = Context(Store(Path(store)), out / "logs", report=Report(quiet=True))
        recipe = load(recipe_name, ROOT)
        options = pipeline.Options(root=ROOT, out=out, index=str(out / "index"))
        patched = pipeline.apply_patches(pipeline.fetch_sources(recipe, options, context), options, context)
        toolchain = compiling.prepare(recipe, locked(recipe, ROOT), context)
        with compiling.compiler_cache(toolchain, context) as cache:
            package, count = recipe.package("vllm"), compiling.job_count(jobs)
            order = compiling.Order(recipe, package, patched.trees, (), toolchain, count, cache)
            job = packages._job(order, out / "raw", context)  # noqa: SLF001  upstream's build without our door
            with vllm._build(job, patched.trees, share=False) as made:  # noqa: SLF001
                env = {**made.env, "PATH": toolchain.environment()["PATH"]}
                started = time.monotonic()
                watch = UnitWatch(context.report, "vllm")
                flags = ["--py-limited-api=cp38"]
                build_wheel(made.source, job.out, toolchain, context, env=env, watch=watch, options=flags)
                sys.stdout.write(f"{time.monotonic() - started}\n")


def _told(what: str, built: Built) -> Built:
    hits, misses = built.hits
    units = built.document["units"]
    parts = f"{units['compiled']} units compiled, {units['hits']} hits, " if units else "no unit, "
    say(f"{what}: {built.seconds:.1f} s ({built.cpu:.1f} s of CPU); {parts}compiler cache {hits} hits, {misses} misses")
    slowest = sorted(built.document["seconds"].items(), key=lambda pair: -pair[1])[:7]
    say("    " + ", ".join(f"{name} {seconds}" for name, seconds in slowest))
    return built


if __name__ == "__main__":
    _upstream_here(*sys.argv[2:]) if sys.argv[1:2] == ["--upstream"] else main(sys.argv[1:])
