"""`verify provenance=PATH [recipe=NAME] [identity=WHO [issuer=URL] [trust=FILE]]`: hold a statement against the facts.

A statement without a signature proves nothing by itself: whoever can change the wheel can change
it too. It is held against what the reader has and trusts: the wheel's bytes, the build record
inside, the recipe with its patches and lock, and, with `identity`, Sigstore's log. Nothing is
fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from builder.errors import UsageError, WheelError
from builder.finding import Finding
from builder.model import Package, Recipe
from builder.recipe import load
from builder.report import counted
from builder.store import sha256_of
from builder.supply import (
    LOCAL,
    RECORD_NAME,
    SUFFIX,
    Material,
    Statement,
    asked,
    materials,
    parameters,
    read_statement,
    recipe_materials,
    record_in,
    signature,
)

VERSION = 1
OWN_OPTIONS = ("provenance", "identity", "issuer", "trust")
_OPTIONS = (*OWN_OPTIONS, "recipe", "out", "store")
_AGAIN = "build the wheel again, or take wheel and statement from one place"
_OTHER = "the recipe has moved on since: check with the checkout it was built from, or build again"
_UNPINNED = ("compiler", "file")  # nothing in a recipe says which; the wheel's own record does
_FOLLOWS = ("result", "sdist")  # of a tree that is the sdist's


@dataclass(frozen=True, slots=True)
class Checked:
    """One wheel with its statement, who signed it (if that was asked and holds), and what contradicts it."""

    wheel: Path
    statement: Statement | None
    signer: str
    findings: tuple[Finding, ...]


def asks_for_provenance(options: Mapping[str, str]) -> bool:
    """Whether the options are of this question; raises UsageError for a mixture with another."""
    own = [name for name in OWN_OPTIONS if name in options]
    others = [name for name in options if name not in _OPTIONS]
    if own and "provenance" not in options:
        raise UsageError(f"{own[0]}= of which statement?", expected="provenance=PATH, a wheel or its statement")
    if own and others:
        known = ", ".join(f"{name}=…" for name in _OPTIONS)
        raise UsageError(f"{others[0]}= has no part in provenance=", expected=known)
    lone = [name for name in ("issuer", "trust") if name in options and "identity" not in options]
    if lone:
        raise UsageError(f"{lone[0]}= without identity=", expected="identity=WHO, as the certificate names the signer")
    return bool(own)


def run_provenance(words: Sequence[str], options: Mapping[str, str], root: Path) -> tuple[dict[str, Any], str, bool]:
    """Check a wheel's statement, or those of a folder; the document, the text and whether all agree.

    Raises UsageError for a path that is none, InspectError for a wheel that cannot be read, RecipeError.
    """
    recipe = load(options["recipe"], root) if "recipe" in options else None
    checked = [check(wheel, paper, recipe, root, options) for wheel, paper in _pairs(options["provenance"], words)]
    good = not any(each.findings for each in checked)
    text = "\n".join(line for each in checked for line in _text(each))
    return {"version": VERSION, "good": good, "files": [_document(each) for each in checked]}, text, good


def check(wheel: Path, paper: Path, recipe: Recipe | None, root: Path, options: Mapping[str, str]) -> Checked:
    """Everything that contradicts one statement."""
    if not paper.is_file():
        finding = Finding("provenance", str(paper), "there is no statement for this wheel", _AGAIN)
        return Checked(wheel, None, "", (finding,))
    try:
        said = read_statement(paper.read_bytes())
    except ValueError as error:
        return Checked(wheel, None, "", (Finding("provenance", str(paper), f"it is no statement: {error}", _AGAIN),))
    found = [*_subject(said, wheel, paper), *_against_record(said, wheel)]
    if recipe is not None:
        found += _against_recipe(said, recipe, root)
    if "identity" not in options:
        return Checked(wheel, said, "", tuple(found))
    faults = tuple(_signed(wheel, paper, options))
    signer = "" if faults else options["identity"]
    return Checked(wheel, said, signer, (*found, *(faults or _built_by(said, options))))


def _pairs(place: str, words: Sequence[str]) -> list[tuple[Path, Path]]:
    """Each wheel with the path of its statement. `place` is a wheel, a statement, or a folder of wheels."""
    path = Path(place)
    if not path.exists():
        raise UsageError(f"there is no {path}", expected="a wheel, its statement or a folder of wheels")
    if path.is_dir():
        wheels = sorted(path.glob("*.whl"))
    elif path.name.endswith(".whl"):
        wheels = [path]
    else:
        wheels = [Path(word) for word in words] or [path.with_name(path.name.removesuffix(SUFFIX))]
        if len(wheels) != 1 or wheels[0] == path or not wheels[0].is_file():
            raise UsageError(
                f"which wheel is {path.name} of?",
                expected=f"the wheel beside it, or named: verify WHEEL provenance={path}",
                remedy="name one wheel",
            )
        return [(wheels[0], path)]
    if words or not wheels:
        raise UsageError(f"{place} is no folder of wheels" if not wheels else f"unexpected word {words[0]}")
    return [(wheel, wheel.with_name(wheel.name + SUFFIX)) for wheel in wheels]


def _subject(said: Statement, wheel: Path, paper: Path) -> Iterator[Finding]:
    found = sha256_of(wheel)
    if said.wheel != wheel.name:
        yield Finding("subject", str(paper), f"it is of {said.wheel}, not of {wheel.name}", _AGAIN)
    if said.sha256 != found:
        message = f"the wheel has sha256 {found}, the statement is of {said.sha256}"
        yield Finding("subject", str(wheel), message, "do not install it: " + _AGAIN)


def _against_record(said: Statement, wheel: Path) -> Iterator[Finding]:
    """The record in the wheel names the same, item by item."""
    try:
        record = record_in(wheel)
    except WheelError as error:
        yield Finding("build-record", str(wheel), f"{error.what}: {error.expected}", _AGAIN)
        return
    if record is None:
        yield Finding("build-record", str(wheel), "the wheel has no build record: another tool made it", _AGAIN)
        return
    own = record["recipe"], record["package"]["name"]
    if (said.recipe, said.digest, said.package) != (own[0]["name"], own[0]["digest"], own[1]):
        message = f"it is for {said.package} of recipe {said.recipe}, the record for {own[1]} of {own[0]['name']}"
        yield Finding("build-record", RECORD_NAME, message, _AGAIN)
    for name, value in parameters(record).items():
        if said.parameters[name] != value:
            yield Finding("build-record", name, "the statement asks for something else than the record says", _AGAIN)
    told = {m.key: m for m in said.materials if m.kind != "lock"}
    twice = [m.key for m, other in pairwise(sorted(said.materials, key=lambda m: m.key)) if m.key == other.key]
    for key in twice:
        yield Finding("build-record", key, "the statement names it twice", _AGAIN)
    for key, wanted, found in _differences({m.key: m for m in materials(record)}, told):
        yield Finding("build-record", key, f"the statement says {found}, the record in the wheel {wanted}", _AGAIN)


def _against_recipe(said: Statement, recipe: Recipe, root: Path) -> Iterator[Finding]:
    package = next((each for each in recipe.packages if each.name == said.package), None)
    if package is None or said.recipe != recipe.name:
        message = f"it is for {said.package} of recipe {said.recipe}, which {recipe.name} is not"
        yield Finding("recipe", recipe.name, message, f"check it with recipe={said.recipe}")
        return
    pins = recipe_materials(recipe, package, root)
    found = list(_pinned(said.materials, pins, package))
    yield from found
    if not found and said.digest != asked(recipe, package):
        message = f"the recipe asks for something else: its digest is {asked(recipe, package)}, not {said.digest}"
        yield Finding("recipe", recipe.name, message, _OTHER)


def _pinned(told: Sequence[Material], pins: Sequence[Material], package: Package) -> Iterator[Finding]:
    """What is named and not pinned so, and what is pinned and not named."""
    by_key = {pin.key: pin for pin in pins}
    from_sdist = all(m.fact == by_key[m.key].fact for m in told if m.kind == "tree" and m.key in by_key)
    for material in told:
        pin = by_key.get(material.key)
        if material.kind in _UNPINNED or (material.kind in _FOLLOWS and not from_sdist):
            continue
        if material.kind == "tree" and package.git_tree and material.digests == (("gitTree", package.git_tree),):
            continue
        if pin is None:
            yield Finding("pin", material.key, f"the recipe does not name it ({material.fact})", _OTHER)
        elif not _agree(material, pin):
            message = f"the wheel was made from {material.fact}, the recipe pins {pin.fact}"
            yield Finding("pin", material.key, message, _OTHER)
    names = {material.key for material in told}
    for pin in pins:
        if pin.key not in names and pin.kind in {"commit", "tree", "result", "vendored", "lock"}:
            yield Finding("pin", pin.key, f"the recipe pins {pin.fact}, and the statement does not name it", _OTHER)


def _agree(found: Material, pin: Material) -> bool:
    """Equal versions, and equal digests wherever both have one."""
    wanted = dict(pin.digests)
    return found.version == pin.version and all(wanted.get(name, value) == value for name, value in found.digests)


def _differences(wanted: Mapping[str, Material], found: Mapping[str, Material]) -> Iterator[tuple[str, str, str]]:
    for key in sorted(wanted.keys() | found.keys()):
        pair = [f"{each.fact} {each.uri}".strip() if each else "nothing" for each in (wanted.get(key), found.get(key))]
        if pair[0] != pair[1]:
            yield key, pair[0], pair[1]


def _signed(wheel: Path, paper: Path, options: Mapping[str, str]) -> Iterator[Finding]:
    bundle = wheel.with_name(wheel.name + signature.SUFFIX)
    remedy = "take the bundle from the run that built the wheel, or correct identity= and issuer="
    if not bundle.is_file():
        yield Finding("signature", str(bundle), "there is no Sigstore bundle beside the wheel", remedy)
        return
    issuer, trust = options.get("issuer", signature.GITHUB), options.get("trust")
    try:
        payload = signature.signed_payload(bundle, options["identity"], issuer, Path(trust) if trust else None)
    except ValueError as error:
        yield Finding("signature", str(bundle), f"it does not hold: {error}", remedy)
        return
    mine = json.loads(paper.read_bytes())
    for part in ("subject", "predicateType", "predicate"):
        if payload.get(part) != mine[part]:
            message = f"what was signed and the statement differ in {part}"
            yield Finding("signature", str(bundle), message, _AGAIN)


def _built_by(said: Statement, options: Mapping[str, str]) -> Iterator[Finding]:
    """A workflow signs what it has built itself; who signs in person may vouch for a local machine."""
    identity, in_person = options["identity"], options.get("issuer", signature.GITHUB) != signature.GITHUB
    if said.builder != identity and not (in_person and said.builder == LOCAL):
        message = f"{said.builder} built it, and {identity} should have signed it"
        yield Finding("builder", said.wheel, message, "take wheel, statement and bundle from one run of that workflow")


def _document(checked: Checked) -> dict[str, Any]:
    said = checked.statement
    return {
        "path": str(checked.wheel),
        "good": not checked.findings,
        "sha256": said.sha256 if said else "",
        "recipe": said.recipe if said else "",
        "builder": said.builder if said else "",
        "signed_by": checked.signer,
        "materials": [{"kind": m.kind, "name": m.name, "fact": m.fact} for m in (said.materials if said else ())],
        "findings": [
            {"rule": f.rule, "where": f.where, "message": f.message, "remedy": f.remedy} for f in checked.findings
        ],
    }


def _text(checked: Checked) -> Iterable[str]:
    count, said = len(checked.findings), checked.statement
    verdict = counted(count, "finding") if count else "agrees"
    yield f"{checked.wheel.name}: {verdict}"
    if said is not None:
        yield f"  {said.package} of recipe {said.recipe}, built by {said.builder}; {_signer(checked)}"
        yield f"  {counted(len(said.materials), 'material')} named"
    for each in checked.findings:
        yield f"  - {each.rule}: {each.where}: {each.message}"
        yield f"      {each.remedy}"


def _signer(checked: Checked) -> str:
    if checked.signer:
        return f"signed by {checked.signer}"
    wrong = any(each.rule == "signature" for each in checked.findings)
    return "its signature does not hold" if wrong else "not asked who signed it: identity=WHO asks"
