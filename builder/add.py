"""`publish add FOLDER… recipe=NAME[,NAME] [identity=WHO]`: wheels that were built elsewhere, into an index.

Whoever has the index's login need not be who built. So each wheel is verified here once more, its
statement is held against wheel and recipe, and with an identity it must be signed. A platform a recipe:
`recipe=` names several where an index gets their wheels together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from builder import publish
from builder.context import Context
from builder.errors import NegativeVerdict, UsageError
from builder.finding import Finding
from builder.model import Package, Recipe, VerifiedWheel, Wheel
from builder.recipe import local_version
from builder.recipe.promise import promises
from builder.store import sha256_of
from builder.supply import SUFFIX
from builder.verify import verify_wheel
from builder.verify.check import told
from builder.verify.provenance import check


def add_wheels(
    places: Sequence[Path], recipes: Sequence[Recipe], options: Mapping[str, str], context: Context, index: str
) -> publish.Published:
    """Verify the wheels at `places` (folders, or wheels) and publish all of them, or none.

    `options` are those of the signature: identity, issuer, trust. Raises UsageError for a place without wheels and a
    wheel of none of the recipes, NegativeVerdict for a wheel or statement that does not hold, PublishError.
    """
    lone = [name for name in ("issuer", "trust") if name in options and "identity" not in options]
    if lone:
        raise UsageError(f"{lone[0]}= without identity=", expected="identity=WHO, as the certificate names the signer")
    wanted = {path: _wanted(path, recipes) for place in places for path in _wheels(place)}
    statements = {path.name: _statement(path, recipe, options) for path, (recipe, _) in wanted.items()}
    wheels = [_verified(path, recipe, package, context) for path, (recipe, package) in wanted.items()]
    offered = {(recipe.name, package.name) for recipe, package in wanted.values()}
    return publish.publish(wheels, index, promised=promises(recipes, offered), statements=statements)


def _wheels(place: Path) -> list[Path]:
    found = sorted(place.glob("*.whl")) if place.is_dir() else [place] if place.suffix == ".whl" else []
    if not found or not all(path.is_file() for path in found):
        raise UsageError(f"there are no wheels in {place}", expected="the folder in which a build left its wheels")
    return found


def _wanted(path: Path, recipes: Sequence[Recipe]) -> tuple[Recipe, Package]:
    """The recipe and package that a wheel is of, by name and platform; of several, the one whose version it has."""
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise UsageError(f"{path.name} is no wheel's name: {error}", expected="wheels as a build names them") from error
    fitting = [
        (recipe, package)
        for recipe in recipes
        for package in recipe.packages
        if canonicalize_name(package.name) == name
        and any(tag.platform == "any" or tag.platform.endswith(f"_{recipe.target.machine}") for tag in tags)
    ]
    if not fitting:
        raise UsageError(
            f"{path.name} is of no package of {', '.join(recipe.name for recipe in recipes)}",
            where=str(path.parent),
            expected=", ".join(f"{p.name} for {r.target.platform}" for r in recipes for p in r.packages),
            remedy="name the recipe that built it: recipe=NAME[,NAME]",
        )
    own = [(recipe, package) for recipe, package in fitting if local_version(recipe, package) == str(version)]
    return (own or fitting)[0]


def _statement(path: Path, recipe: Recipe, options: Mapping[str, str]) -> bytes:
    """The wheel's statement, held against all that is known; empty when there is none and nobody asked for it."""
    paper = path.with_name(path.name + SUFFIX)
    if not paper.exists() and "identity" not in options:
        return b""
    findings = check(path, paper, recipe, _root(recipe), options).findings
    if findings:
        raise _refusal(path, findings)
    return paper.read_bytes()


def _verified(path: Path, recipe: Recipe, package: Package, context: Context) -> VerifiedWheel:
    _, version, tag = path.stem.split("-", 2)
    wheel = Wheel(path, sha256_of(path), path.stat().st_size, package.name, version, tag)
    return verify_wheel(wheel, recipe, package, context)


def _root(recipe: Recipe) -> Path:
    return recipe.path.resolve().parent.parent


def _refusal(path: Path, findings: Sequence[Finding]) -> NegativeVerdict:
    return NegativeVerdict(
        f"{path.name} is not published: what it came from does not hold\n{told(findings)}",
        where=str(path),
        remedy="take wheels, statements and bundles from one run of the recipe's build",
    )
