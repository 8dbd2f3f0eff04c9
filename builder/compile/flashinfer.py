"""FlashInfer: its Python wheel by its own backend, and our cache of modules compiled ahead of time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from builder.compile.ahead import audit, check, told
from builder.compile.collected import keep_collected
from builder.compile.forecast import Forecast
from builder.compile.gate.task import unit_of
from builder.compile.governed import STEPS
from builder.compile.host import AS_NAMED
from builder.compile.job import Job
from builder.compile.native import Left, Rule, kept_parts, native_key
from builder.compile.ninjafile import reader, units_in
from builder.compile.pep517 import build_wheel
from builder.compile.place import canonical_root
from builder.compile.shard import Share, seconds_of
from builder.compile.shared import Shared, compile_units
from builder.compile.trace import recorded
from builder.compile.units import UnitWatch
from builder.compile.wheelfile import Part, new_wheel
from builder.compile.workplace import forget_other_toolchain, workplace
from builder.errors import CompileError, RunError
from builder.git import Objects
from builder.model import PatchedTree
from builder.store import atomic_write

_RULE = Rule(
    apart=("flashinfer/*.py", "tests/*", "docs/*", "benchmarks/*", "examples/*", "docker/*", "ci/*", ".*", "*.md"),
    unless=(
        "flashinfer/jit/*",
        "flashinfer/aot.py",
        "flashinfer/artifacts.py",
        "flashinfer/compilation_context.py",
        "flashinfer/version.py",
        "flashinfer/_build_meta.py",
        "3rdparty/*",
        "csrc/*",
        "include/*",
    ),
)
"""Its generators are Python. They tell what they are written in: where that is more than this, nothing is kept."""

_LISTED = "listed.json"
_SPECS = Path(__file__).parent / "facade" / "flashinfer_specs.py"
_META = '"""Build metadata for flashinfer package."""\n__version__ = "{version}"\n__git_version__ = "{commit}"\n'
_CACHE_INIT = '''"""FlashInfer modules compiled ahead of time for {archs}; FlashInfer finds them by itself."""

from pathlib import Path

__version__ = "{version}"


def get_jit_cache_dir() -> str:
    """The folder that holds <module>/<module>.so."""
    return str(Path(__file__).parent / "jit_cache")
'''


def build_python(job: Job, trees: Mapping[str, PatchedTree]) -> Path:
    """The pure-Python wheel, by FlashInfer's own PEP 517 backend. Raises CompileError."""
    tree = trees[job.package.name]
    with workplace(tree, job.toolchain, job.context) as source:
        objects = Objects(tree.git_dir)
        files = objects.files(tree.tree)
        keep_collected(source, objects, files, native_key(files, _RULE, []))
        _write_version(source, job)
        watch = UnitWatch(job.context.report, "flashinfer-python")
        stored = ["--compression=stored"]  # its members are packed anew afterwards
        return build_wheel(source, job.out, job.toolchain, job.context, env={}, watch=watch, options=stored)


def build_jit_cache(job: Job, trees: Mapping[str, PatchedTree]) -> Path:
    """The wheel flashinfer-jit-cache with the recipe's modules. Raises CompileError."""
    tree, store = trees[job.package.source], job.context.store
    key = native_key(Objects(tree.git_dir).files(tree.tree), _RULE, _reached(job))
    kept = kept_parts(store, key)
    if kept is not None:
        job.context.report.note("flashinfer-jit-cache: nothing that is compiled has changed: its modules are kept")
        check(_audited(job, json.loads((kept / _LISTED).read_text(encoding="utf-8"))))
        return _wheel(job, kept)
    with _configured(job, trees) as made:
        with recorded(made.build, "flashinfer-jit-cache", made.source, job.context.logs):
            _run_ninja(job, made.build, made.env, _watch(job, made.source, made.build))
        beside = [path for path in made.python if not _RULE.reads(path)]
        if beside:
            job.context.report.warn(f"FlashInfer's generators import {beside[0]} too: its modules are not kept")
        else:
            store.tree(key, lambda folder: _keep(job, made, folder))
        return _wheel(job, made.build / "cached_ops")


def _reached(job: Job) -> list[object]:
    """What reaches the modules beside FlashInfer's own files."""
    asked = {name: value for name, value in _environment(job).items() if name.startswith(("FLASHINFER_", "C", "TVM_"))}
    return [job.toolchain.key, job.toolchain.layout, sorted(job.package.components), asked]


def _keep(job: Job, made: _Made, folder: Path) -> None:
    for module in job.package.components:
        (folder / module).mkdir()
        shutil.copyfile(made.build / "cached_ops" / module / f"{module}.so", folder / module / f"{module}.so")
    (folder / _LISTED).write_text(json.dumps(made.listed), encoding="utf-8")


def compile_share(job: Job, trees: Mapping[str, PatchedTree], share: Share) -> Shared:
    """Compile that share of all modules' units. Raises CompileError."""
    with _configured(job, trees) as made:
        watch = _watch(job, made.source, made.build)
        return compile_units(job, share, Left(made.build, ()), made.source, env=made.env, watch=watch)


@dataclass(frozen=True, slots=True)
class _Made:
    """The checkout, the build folder with its ninja files, the environment to build in, and what generators told.

    `listed` are the modules of FlashInfer's ahead-of-time list, `python` the files that its generators are.
    """

    source: Path
    build: Path
    env: Mapping[str, str]
    listed: list[str]
    python: list[str]


@contextmanager
def _configured(job: Job, trees: Mapping[str, PatchedTree]) -> Iterator[_Made]:
    """FlashInfer's generators run, and their build folder held."""
    with workplace(trees[job.package.source], job.toolchain, job.context) as source:
        _write_version(source, job)
        build = canonical_root() / "src" / "flashinfer-jit"
        forget_other_toolchain(build, job.toolchain)
        env = _environment(job)
        answer = _write_ninja(job, source, build, env)
        yield _Made(source, build, env, answer["ahead_of_time"], answer["python"])


def _write_version(source: Path, job: Job) -> None:
    package = job.recipe.package(job.package.source or job.package.name)
    meta = _META.format(version=job.sibling_versions[package.name], commit=package.commit)
    for name, text in (("flashinfer/_build_meta.py", meta), ("version.txt", f"{package.version}\n")):
        if not (source / name).is_file() or (source / name).read_text(encoding="utf-8") != text:
            atomic_write(source / name, text.encode())


def _environment(job: Job) -> dict[str, str]:
    toolchain = job.toolchain
    sccache = toolchain.bin / "sccache"
    return (
        toolchain.environment()
        | {
            "FLASHINFER_CUDA_ARCH_LIST": str(job.first_arch),
            "FLASHINFER_NVCC": f"{sccache} {toolchain.cuda_home}/bin/nvcc -Xcompiler={AS_NAMED}",
            "CXX": f"{sccache} {toolchain.compilers.cxx} {AS_NAMED}",
            "CC": str(toolchain.compilers.cxx),
            "FLASHINFER_WORKSPACE_BASE": str(canonical_root() / "src"),
            "TVM_FFI_DISABLE_TORCH_C_DLPACK": "1",  # it would compile against a loaded torch
        }
        | dict(job.cache)
    )


def _write_ninja(job: Job, source: Path, build: Path, env: Mapping[str, str]) -> dict[str, list[str]]:
    build.mkdir(parents=True, exist_ok=True)
    places = {"source": source, "build": build, "site": job.toolchain.site, "headers": job.toolchain.headers}
    asked = json.dumps({name: str(place) for name, place in places.items()} | {"modules": list(job.package.components)})
    try:
        said = job.context.run([job.toolchain.python, _SPECS, asked], env=env, cwd=build).output
    except RunError as error:
        raise CompileError(
            "FlashInfer's generators failed",
            where="flashinfer-jit-cache",
            expected=error.expected,
            remedy="look at the patches of flashinfer-python",
        ) from error
    answer: dict[str, list[str]] = json.loads(said.strip().splitlines()[-1])
    found = _audited(job, answer["ahead_of_time"])
    if answer["unknown"]:
        near = {name: get_close_matches(name, answer["ahead_of_time"], 1) for name in answer["unknown"]}
        hints = "; ".join(f"{name} (nearest: {close[0]})" if close else name for name, close in near.items())
        raise CompileError(
            f"FlashInfer makes no module {hints}",
            where="the recipe's components of flashinfer-jit-cache",
            expected=f"one of its {len(answer['ahead_of_time'])} modules for {job.first_arch}, or an XQA module's name",
            remedy="correct the component's name",
        )
    check(found)
    return answer


def _audited(job: Job, listed: list[str]) -> dict[str, Any]:
    """Keep what the recipe has of FlashInfer's own list with the logs, and tell it."""
    found = audit(listed, job.package.components)
    atomic_write(job.context.logs / "ahead-of-time.json", json.dumps(found, indent=1).encode())
    for line in told(found):
        job.context.report.note(f"flashinfer-jit-cache: {line}")
    return found


def _watch(job: Job, source: Path, build: Path) -> UnitWatch:
    """A watch that knows what each unit of the build folder is taken to cost."""
    text = (build / "build.ninja").read_text(encoding="utf-8")
    units = units_in(text, str(source), reader(build))
    expected = {unit_of(unit.target): seconds_of(unit) for unit in units}
    forecast = Forecast(expected, job.context.logs / STEPS)
    return UnitWatch(job.context.report, "flashinfer-jit-cache", forecast=forecast)


def _run_ninja(job: Job, build: Path, env: Mapping[str, str], watch: UnitWatch) -> None:
    log = job.context.logs / "flashinfer-jit-cache.log"
    argv: list[str | Path] = [job.toolchain.bin / "ninja", "-C", build, "-f", "build.ninja", f"-j{job.jobs}", "-k", "1"]
    try:
        job.context.run(argv, env=env, log=log, on_line=watch)
    except RunError as error:
        raise watch.error(str(log)) from error


def _wheel(job: Job, modules: Path) -> Path:
    init = _CACHE_INIT.format(version=job.version, archs=job.first_arch)
    parts = [Part("flashinfer_jit_cache/__init__.py", init.encode())]
    for module in sorted(job.package.components):
        library = modules / module / f"{module}.so"
        parts.append(Part(f"flashinfer_jit_cache/jit_cache/{module}/{module}.so", library.read_bytes(), 0o755))
    return new_wheel(
        job.out,
        name="flashinfer-jit-cache",
        version=job.version,
        tag=f"py3-none-linux_{job.toolchain.machine}",
        parts=parts,
        requires=[f"flashinfer-python=={job.sibling_versions['flashinfer-python']}"],
        summary=f"FlashInfer modules compiled ahead of time for {job.first_arch}",
    )
