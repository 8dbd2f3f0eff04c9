"""One package to one wheel: kept by the content it is made of, compiled only when that is new."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from builder import __version__
from builder.compile import flashinfer, vllm
from builder.compile.assemble import Plan, assemble
from builder.compile.job import Job
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.errors import CompileError
from builder.fetch import fetch
from builder.model import ExternalTree, LockedFile, Package, PatchedTree, Recipe, Wheel
from builder.recipe import local_version
from builder.store import key_of

DRIVERS: Mapping[str, Callable[[Job, Mapping[str, PatchedTree]], Path]] = {
    "vllm": vllm.build,
    "flashinfer-python": flashinfer.build_python,
    "flashinfer-jit-cache": flashinfer.build_jit_cache,
}
_CODE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Compiled:
    """A wheel, and whether it came from the store without any compiler running."""

    wheel: Wheel
    cached: bool


def compile_package(
    recipe: Recipe,
    package: Package,
    trees: Mapping[str, PatchedTree],
    externals: Sequence[ExternalTree],
    toolchain: Toolchain,
    context: Context,
    *,
    jobs: int,
    cache: Mapping[str, str],
) -> Compiled:
    """The package's wheel, in the store. Raises CompileError, WheelError and FetchError."""
    tree = trees[package.source or package.name]
    versions = {each.name: local_version(recipe, each) for each in recipe.packages}
    key = _wheel_key(recipe, package, tree, externals, toolchain, versions)
    kept = _kept(key, context)
    if kept is not None:
        return Compiled(kept, cached=True)
    driver = DRIVERS.get(package.name)
    if driver is None:
        raise CompileError(
            f"no driver builds {package.name}",
            where="the recipe's packages",
            expected=f"one of {', '.join(DRIVERS)}",
            remedy="add a driver under builder/compile and name it in DRIVERS",
        )
    with tempfile.TemporaryDirectory(prefix="spark-wheels-") as scratch:
        job = Job(
            recipe=recipe,
            package=package,
            version=versions[package.name],
            toolchain=toolchain,
            context=context,
            out=Path(scratch, "raw"),
            jobs=jobs,
            sibling_versions=versions,
            externals=tuple(externals),
            cache=cache,
        )
        raw = driver(job, trees)
        plan = _plan(job, tree)
        wheel = assemble(raw, Path(scratch, "final"), plan, toolchain.compilers, context)
        return Compiled(_keep(key, wheel, context), cached=False)


def _plan(job: Job, tree: PatchedTree) -> Plan:
    package, recipe = job.package, job.recipe
    prebuilt = None if job.externals else package.prebuilt
    blob = None if prebuilt is None else _official(package, prebuilt.wheel, prebuilt.sha256, job.context)
    siblings = {name: f"{name}=={version}" for name, version in job.sibling_versions.items() if name != package.name}
    return Plan(
        version=job.version,
        machine=recipe.target.machine,
        pins={**siblings, "torch": f"torch=={recipe.toolchain.torch}"},
        requires=package.requires,
        record=_record(job, tree),
        prebuilt=prebuilt,
        prebuilt_wheel=blob,
    )


def _official(package: Package, wheel: str, sha256: str, context: Context) -> Path:
    context.report.note(f"{package.name}: parts from the official {wheel} (sha256 {sha256[:12]}…)")
    file = LockedFile(project=package.name, version=package.version, filename=wheel, sha256=sha256, size=0)
    return fetch(file, context.store, context.report)


def _record(job: Job, tree: PatchedTree) -> dict[str, object]:
    """The build record inside dist-info: everything the bytes came from, and no clock."""
    package, recipe, toolchain = job.package, job.recipe, job.toolchain
    prebuilt = None if job.externals else package.prebuilt
    return {
        "version": 1,
        "builder": __version__,
        "recipe": {"name": recipe.name, "revision": recipe.revision, "digest": _asked(recipe, package)},
        "package": {
            "name": package.name,
            "version": job.version,
            "upstream_commit": package.commit,
            "sdist_sha256": package.sha256,
            "tree": tree.base_tree,
            "result_tree": tree.tree,
            "components": list(package.components),
        },
        "patches": [{"file": p.file, "sha256": p.sha256, "state": p.state, "offset": p.offset} for p in tree.applied],
        "externals": [{"name": e.external.name, "git": e.external.git, "tree": e.tree} for e in job.externals],
        "prebuilt": None
        if prebuilt is None
        else {"wheel": prebuilt.wheel, "sha256": prebuilt.sha256, "files": list(prebuilt.files)},
        "target": {"platform": recipe.target.platform, "cuda_arch": [str(arch) for arch in recipe.target.cuda_arch]},
        "toolchain": {
            "kind": toolchain.kind,
            "cuda": toolchain.cuda,
            "torch": toolchain.torch,
            "key": toolchain.key,
            "compiler": f"{toolchain.compilers.cxx.name} {toolchain.compilers.version}",
            "machine": os.uname().machine,
        },
    }


def _asked(recipe: Recipe, package: Package) -> str:
    """A digest of what the recipe says that reaches this wheel's bytes: its expectations do not."""
    return key_of([recipe.name, recipe.revision, asdict(recipe.target), asdict(recipe.toolchain), asdict(package)])


def _wheel_key(
    recipe: Recipe,
    package: Package,
    tree: PatchedTree,
    externals: Sequence[ExternalTree],
    toolchain: Toolchain,
    versions: Mapping[str, str],
) -> str:
    ours = {path.name: path.read_text(encoding="utf-8") for path in sorted(_CODE.glob("*.py"))}
    parts = [
        _asked(recipe, package),
        tree.tree,
        [external.tree for external in externals],
        toolchain.key,
        dict(versions),
        ours,
        __version__,
    ]
    return key_of(parts)


def _kept(key: str, context: Context) -> Wheel | None:
    record = context.store.record("wheel", key)
    blob = context.store.blob(str(record["sha256"])) if record else None
    if record is None or blob is None:
        return None
    return _wheel(record, blob)


def _wheel(record: Mapping[str, object], path: Path) -> Wheel:
    return Wheel(
        path=path.parent.parent / "wheels" / str(record["sha256"]) / str(record["filename"]),
        sha256=str(record["sha256"]),
        size=int(str(record["size"])),
        name=str(record["name"]),
        version=str(record["version"]),
        tag=str(record["tag"]),
    )


def _keep(key: str, wheel: Wheel, context: Context) -> Wheel:
    """Keep the wheel under its digest, and under its own name in a folder of that digest."""
    blob = context.store.put_file(wheel.path, wheel.sha256)
    folder = blob.parent.parent / "wheels" / wheel.sha256
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / wheel.path.name
    if not place.exists():
        place.hardlink_to(blob)
    shutil.rmtree(wheel.path.parent)
    record = {
        "filename": wheel.path.name,
        "sha256": wheel.sha256,
        "size": wheel.size,
        "name": wheel.name,
        "version": wheel.version,
        "tag": wheel.tag,
    }
    context.store.keep_record("wheel", key, record)
    return _wheel(record, blob)
