"""Finds a recipe, resolves `extends`, checks everything at once, and converts to frozen records."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

from builder.errors import UsageError
from builder.model import (
    Arch,
    Contains,
    External,
    ImagePin,
    Package,
    Prebuilt,
    Recipe,
    Superseded,
    Target,
    ToolchainPin,
)
from builder.recipe.checks import INHERITED, cross_faults, name_faults
from builder.recipe.extend import Raw, merged, narrowed
from builder.recipe.problems import Problem, did_you_mean, listed, raise_for, read_toml
from builder.recipe.structure import faults
from builder.recipe.tables import (
    ContainsTable,
    ExternalTable,
    ImageTable,
    PackageTable,
    PrebuiltTable,
    RecipeFile,
    SupersededTable,
)
from builder.store import key_of, sha256_of

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


def known(root: Path) -> tuple[str, ...]:
    """The names of the recipes under `root`/recipes, sorted."""
    return tuple(sorted(path.stem for path in (root / "recipes").glob("*.toml")))


def load(name_or_path: str, root: Path) -> Recipe:
    """The recipe of that name under `root`/recipes, or the file at that path.

    Raises UsageError when there is none, RecipeError with every problem when it is wrong.
    """
    path = _find(name_or_path, root)
    raw, problems = _resolve(path, root, ())
    raise_for(problems)
    return _recipe(path, RecipeFile.model_validate(narrowed(raw)), root)


def _find(name_or_path: str, root: Path) -> Path:
    by_path = name_or_path.endswith(".toml") or "/" in name_or_path
    path = Path(name_or_path) if by_path else root / "recipes" / f"{name_or_path}.toml"
    if _is_file(path):
        return path
    names = known(root)
    raise UsageError(
        f"there is no recipe {name_or_path!r}{did_you_mean(Path(name_or_path).stem, names)}",
        where=str(root / "recipes"),
        expected=f"one of {listed(names) or 'none: the folder holds no recipe'}, or the path of a .toml file",
        remedy="name one of them with recipe=NAME",
    )


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  Path.is_file raises on a name that is too long


def _resolve(path: Path, root: Path, children: tuple[Path, ...]) -> tuple[Raw, list[Problem]]:
    """The file laid over its parents, and every problem of the chain."""
    raw = read_toml(path)
    problems = [*_file_name_faults(path), *name_faults(raw, path)]
    if "extends" not in raw:
        return raw, [*problems, *faults(RecipeFile, raw, path), *cross_faults(raw, path, root)]
    problems += faults(RecipeFile, raw, path, partial=True)
    parent, parent_problems = _parent(raw["extends"], path, root, (*children, path))
    if parent is None or parent_problems:
        return raw, problems + parent_problems
    whole = merged(parent, raw)
    return whole, [*problems, *_absent(whole, path), *cross_faults(whole, path, root)]


def _parent(name: object, path: Path, root: Path, chain: tuple[Path, ...]) -> tuple[Raw | None, list[Problem]]:
    if not isinstance(name, str):
        return None, []
    file = next((p for p in (path.parent / f"{name}.toml", root / "recipes" / f"{name}.toml") if _is_file(p)), None)
    if file is None:
        return None, [Problem(path, "", f"extends: there is no recipe {name!r}{did_you_mean(name, known(root))}")]
    if file.resolve() in {each.resolve() for each in chain}:
        circle = " → ".join(each.stem for each in (*chain, file))
        return None, [Problem(path, "", f"extends: a circle: {circle}")]
    parent, problems = _resolve(file, root, chain)
    return narrowed(parent), problems


def _absent(whole: Raw, path: Path) -> list[Problem]:
    """Keys that a new entry of the child lacks; all other structure was judged file by file."""
    return [fault for fault in faults(RecipeFile, whole, path) if fault.text.endswith("is missing")]


def _file_name_faults(path: Path) -> list[Problem]:
    if _NAME.fullmatch(path.stem):
        return []
    return [Problem(path, "", "a recipe's file name is lower-case letters, digits, dots, dashes and underscores")]


def _recipe(path: Path, file: RecipeFile, root: Path) -> Recipe:
    target = Target(file.target.platform, tuple(Arch.parse(text) for text in file.target.cuda_arch), file.target.python)
    toolchain = file.toolchain
    recipe = Recipe(
        name=path.stem,
        path=path,
        revision=file.revision,
        target=target,
        toolchain=ToolchainPin(toolchain.cuda, toolchain.torch, toolchain.lock, toolchain.base_image),
        packages=tuple(_package(table, file, root) for table in file.package),
        verify=file.verify.model_dump(exclude_none=True),
        image=_image(file.image),
        platforms=tuple(file.target.platforms or ()),
    )
    return dataclasses.replace(recipe, digest=digest(recipe))


def digest(recipe: Recipe) -> str:
    """SHA-256 of what the recipe says, patch contents included; comments, order of keys and paths do not count."""
    content = dataclasses.asdict(dataclasses.replace(recipe, path=Path(), digest=""))
    del content["platforms"]  # a promise to an index, which no wheel and no image shows
    return key_of(content)


def _package(table: PackageTable, file: RecipeFile, root: Path) -> Package:
    origin = next(other for other in file.package if other.name == (table.source or table.name))
    pins = {key: getattr(origin, key) for key in INHERITED}
    patches, vendored = tuple(pins.pop("patches") or ()), tuple(sorted((pins.pop("vendored") or {}).items()))
    return Package(
        name=table.name,
        contains=tuple(_contains(entry) for entry in pins.pop("contains") or ()),
        superseded=tuple(_superseded(entry) for entry in pins.pop("superseded") or ()),
        git_tree=pins.pop("git_tree") or "",
        **pins,
        patches=patches,
        patch_digests=tuple(sha256_of(root / "patches" / patch) for patch in patches),
        components=tuple(table.components),
        source=table.source or "",
        vendored=vendored,
        prebuilt=_prebuilt(table.prebuilt),
        externals=tuple(_external(external) for external in table.externals),
        requires=tuple(table.requires),
    )


def _image(table: ImageTable | None) -> ImagePin | None:
    if table is None:
        return None
    return ImagePin(table.base, table.lock, tuple(table.packages), table.snapshot or "", table.jit)


def _prebuilt(table: PrebuiltTable | None) -> Prebuilt | None:
    return None if table is None else Prebuilt(table.wheel, table.sha256, tuple(table.files), table.reason)


def _contains(table: ContainsTable) -> Contains:
    return Contains(table.pr, table.commit, tuple(table.probe), table.sha256 or "")


def _superseded(table: SupersededTable) -> Superseded:
    return Superseded(table.name, table.reason, tuple(table.probe), table.bug or "")


def _external(table: ExternalTable) -> External:
    return External(
        name=table.name,
        git=table.git,
        commit=table.commit or "",
        variable=table.variable,
        components=tuple(table.components),
        subfolder=table.subfolder or "",
        tag=table.tag or "",
    )
