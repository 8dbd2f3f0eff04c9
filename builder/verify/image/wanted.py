"""What a recipe asks of its image: wheels, their locked needs, our own files, labels and the base's layers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from builder.inspect.oci import base_of
from builder.model import ImagePin, LockedFile, Recipe
from builder.recipe import locked, read_base, read_lock
from builder.store import Store, key_of, sha256_of
from builder.verify.image.landing import opened_ptxas
from builder.verify.image.own import Own
from builder.verify.image.places import LAYERS, PTXAS, Python, environment, own_digests
from builder.verify.image.rules import Wanted
from builder.verify.image.wheels import installed_of

ARCHITECTURES: Final = {"aarch64": "arm64", "x86_64": "amd64"}
LABEL: Final = "io.github.spark-wheels"
"""What the names of our own labels begin with."""

_COMPILER: Final = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", "nvidia-cuda-runtime")


@dataclass(frozen=True, slots=True)
class Contents:
    """What is laid on the base: our wheels, the locked ones, and the wheel whose assembler is taken."""

    recipe: Recipe
    pin: ImagePin
    python: Python
    wheels: tuple[Path, ...]
    files: tuple[LockedFile, ...]
    compiler: LockedFile


@dataclass(frozen=True, slots=True)
class Standing:
    """The base: digests, one of which the image must name, and its diff_ids and variables where they are known here."""

    digests: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


def needed(recipe: Recipe, pin: ImagePin, lock: Path, root: Path) -> tuple[LockedFile, tuple[LockedFile, ...]]:
    """The compiler's wheel, and every locked wheel that is installed. Raises RecipeError."""
    machine = recipe.target.machine
    roles = {f"host-{machine}", f"target-{machine}"}
    compiler = [file for file in locked(recipe, root) if file.project in _COMPILER and roles & set(file.roles)]
    files = [file for file in read_lock(lock) if f"image-{machine}" in file.roles]
    known = {file.project for file in files}
    files += [file for file in compiler if pin.jit and file.project not in known]
    return next(file for file in compiler if file.project == _COMPILER[0]), tuple(files)


def wanted_for(contents: Contents, base: Standing, store: Store, *, with_packages: bool) -> Wanted:
    """All that is asked of the image; every locked file is in the store. Raises InspectError and WheelError."""
    recipe, python = contents.recipe, contents.python
    digests = {path.name: sha256_of(path) for path in contents.wheels}
    states = [state_of(contents, digests.values(), digest) for digest in base.digests or ("",)]
    envs = [environment(contents.pin, python, state) for state in states]
    locks = [installed_of(_blob(f, store), f.filename, python, ours=False) for f in contents.files]
    with opened_ptxas(_blob(contents.compiler, store)) as stream:
        ptxas = hashlib.sha256(stream.read()).hexdigest()
    return Wanted(
        architecture=ARCHITECTURES[recipe.target.machine],
        bases=base.digests,
        base_layers=base.layers,
        labels=own_labels(recipe, digests),
        wheels=(*(installed_of(path, python=python) for path in contents.wheels), *locks),
        own=Own(
            python=python,
            files={**own_digests(python), PTXAS: ptxas},
            env={name: tuple({each[name]: None for each in envs}) for name in envs[0]},
            inherited=dict(text.partition("=")[::2] for text in base.env),
            layers=len(LAYERS),
            packages=with_packages,
        ),
    )


def _blob(file: LockedFile, store: Store) -> Path:
    return store.root / "blobs" / file.sha256


def state_of(contents: Contents, wheels: Collection[str], base: str) -> str:
    """A name for all that Python reads in the image. `wheels` are our own's digests, `base` is its base's."""
    files = sorted(file.sha256 for file in contents.files)
    packages = [contents.python.version, contents.pin.snapshot, *contents.pin.packages]
    return key_of([base, packages, sorted(wheels), files])[:16]


def own_labels(recipe: Recipe, wheels: Mapping[str, str]) -> dict[str, str]:
    """What the image says of recipe, commits, patches and wheels (file name → SHA-256), each with its digest."""
    patches = {
        name: digest
        for package in recipe.packages
        for name, digest in zip(package.patches, package.patch_digests, strict=True)
    }
    own = {
        "recipe": recipe.name,
        "recipe.digest": recipe.digest,
        "recipe.revision": str(recipe.revision),
        "cuda": recipe.toolchain.cuda,
        "cuda.arch": ",".join(str(arch) for arch in recipe.target.cuda_arch),
        "commits": _json({p.name: p.commit for p in recipe.packages if not p.source}),
        "patches": _json(patches),
        "wheels": _json(wheels),
    }
    return {f"{LABEL}.{key}": value for key, value in own.items()}


def _json(value: Mapping[str, str]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def pulled_base(digest: str, architecture: str) -> str:
    """The key of the store's tree with the base of that digest."""
    return f"base-{key_of([digest, architecture])[:16]}"


def standing(pin: ImagePin | None, given: str, architecture: str, lock: Path | None, store: Store) -> Standing:
    """The base that `given` says (`oci:PATH` or a digest), else the pinned one.

    Its layers are the layout's, the lock's, or those of the base that an earlier build pulled by its digest: the same
    as under an image whose pin names an index of several platforms.
    """
    pinned = pin.base.rpartition("@")[2] if pin else ""
    if given.startswith("oci:"):
        base = base_of(given, f"linux/{architecture}")
        return Standing(tuple({base.digest: None, pinned: None} if pinned else (base.digest,)), base.layers, base.env)
    digest = given or pinned
    if not digest:
        return Standing()
    kept = read_base(lock) if lock else None
    if kept is not None and kept.digest == digest:
        return Standing((digest,), kept.layers, kept.env)
    pulled = store.root / "trees" / pulled_base(digest, architecture)
    if not pulled.is_dir():
        return Standing((digest,))
    base = base_of(f"oci:{pulled}", f"linux/{architecture}")
    return Standing((digest,), base.layers, base.env)


def judged_by(recipe: Recipe | None, options: Mapping[str, str], store: Store) -> Wanted:
    """What is asked without wheels to compare with: the platform, and the base where one is given."""
    architecture = "arm64" if recipe is None else ARCHITECTURES[recipe.target.machine]
    base = standing(recipe.image if recipe else None, options.get("base", ""), architecture, None, store)
    return Wanted(architecture, base.digests, base.layers)


def of_recipe(
    recipe: Recipe, pin: ImagePin, options: Mapping[str, str], root: Path, wheels: Sequence[Path], store: Store
) -> tuple[Contents, Standing]:
    """What the recipe's image holds and stands on, as `lock=`, `python=` and `base=` say, else as the recipe does."""
    lock = Path(options["lock"]) if "lock" in options else root / "recipes" / pin.lock
    python = Python(options.get("python", recipe.target.python))
    compiler, files = needed(recipe, pin, lock, root)
    base = standing(pin, options.get("base", ""), ARCHITECTURES[recipe.target.machine], lock, store)
    return Contents(recipe, pin, python, tuple(wheels), files, compiler), base
