"""`verify PATH… recipe=NAME | device=12.1 [against=PATH] [html=FILE]`: judge any wheel, object or folder.

`verify provenance=PATH [recipe=NAME] [identity=WHO]` holds a wheel's statement against wheel, recipe and signer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from builder.context import Context
from builder.errors import UsageError
from builder.finding import Finding, Verdict
from builder.inspect import FileFacts, inspect_path
from builder.inspect.oci import is_reference
from builder.model import Package, Recipe
from builder.recipe import load
from builder.report import counted
from builder.store import atomic_write
from builder.verify.check import examine, pinned, told
from builder.verify.code import proven
from builder.verify.expect import Expectations, expectations_for, for_device, patterns
from builder.verify.image.verb import run_image_verb
from builder.verify.picture import counterpart, other_version, page
from builder.verify.provenance import OWN_OPTIONS, asks_for_provenance, run_provenance
from builder.verify.sources import hint_from
from builder.verify.timeline import read_timeline

VERSION = 1
_OPTIONS = ("recipe", "device", "package", "against", "html", "timeline", "out", "store", *OWN_OPTIONS)


@dataclass(frozen=True, slots=True)
class Judged:
    """One file, what was asked of it and what came out."""

    path: Path
    wanted: Expectations
    package: str
    verdict: Verdict
    file: FileFacts
    before: FileFacts | None = None


def run_verb(
    words: Sequence[str], options: Mapping[str, str], context: Context, root: Path
) -> tuple[dict[str, Any], str, bool]:
    """Judge every path; returns the document, the text for people, and whether all are good.

    `words` are wheels, objects or folders; without any, the wheels that the recipe's last build left in `out`.
    Raises UsageError for unknown options or paths, InspectError for files that cannot be read.
    """
    images = [word for word in (*words, options.get("image", "")) if is_reference(word)]
    if images or "image" in options:
        return _images(words, images, options, context, root)
    _check(options)
    if "provenance" in options:
        return run_provenance(words, options, root)
    paths = [path for word in _words(words, options, root) for path in _expanded(Path(word))]
    timeline = read_timeline(Path(options["timeline"])) if "timeline" in options else None
    before = _before(paths, options, root) if "against" in options else None
    asker = _by_recipe if "recipe" in options else _by_device
    ask = asker(options, context, root, before)
    judged = [ask(path) for path in paths]
    if "html" in options:
        entries = [(j.file, j.verdict, j.wanted) for j in judged]
        atomic_write(Path(options["html"]), page(entries, before, timeline).encode())
    good = all(j.verdict.good for j in judged)
    text = "\n".join(line for j in judged for line in _text(j))
    return {"version": VERSION, "good": good, "files": [_document(j) for j in judged]}, text, good


def _images(
    words: Sequence[str], images: Sequence[str], options: Mapping[str, str], context: Context, root: Path
) -> tuple[dict[str, Any], str, bool]:
    """Images, with the wheels that they must hold judged as ever."""
    strange = [word for word in (*words, options.get("image", "")) if word and word not in images]
    if strange:
        raise UsageError(
            f"{strange[0]} is no image",
            expected="oci:PATH[:TAG], docker-archive:FILE or docker://NAME@sha256:…; wheels separately",
        )

    def judge_wheels(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], str, bool]:
        ask = _by_recipe(options, context, root, None)
        judged = [ask(path) for path in paths]
        text = "\n".join(line for each in judged for line in _text(each))
        return [_document(each) for each in judged], text, all(each.verdict.good for each in judged)

    return run_image_verb(images, options, context, root, judge_wheels)


def _check(options: Mapping[str, str]) -> None:
    for name in options:
        if name not in _OPTIONS:
            close = get_close_matches(name, _OPTIONS, 1)
            hint = f", did you mean {close[0]}=?" if close else ""
            raise UsageError(f"unknown option {name}={hint}", expected=", ".join(f"{o}=…" for o in _OPTIONS))
    if asks_for_provenance(options):
        return
    if ("recipe" in options) == ("device" in options):
        raise UsageError(
            "say what to hold it against",
            expected="either recipe=NAME or device=12.1",
            remedy="python -m builder verify PATH device=12.1",
        )


def _words(words: Sequence[str], options: Mapping[str, str], root: Path) -> Sequence[str]:
    if words:
        return words
    if "recipe" not in options:
        raise UsageError("no file to verify", expected="a wheel, an object or a folder", remedy="name one")
    recipe = load(options["recipe"], root)
    built = Path(options.get("out", "out")) / recipe.name / "wheels"
    if not any(built.glob("*.whl")):
        said = " ".join(f"{name}={options[name]}" for name in ("recipe", "out", "store") if name in options)
        raise UsageError(
            f"there are no wheels of recipe {recipe.name} to verify in {built}",
            expected="the wheels that its build leaves there, or paths of others",
            remedy=f"python -m builder build {said}, or name a wheel",
        )
    return [str(built)]


def _expanded(path: Path) -> list[Path]:
    """A folder of wheels is its wheels; any other path is itself."""
    if not path.exists():
        raise UsageError(f"there is no {path}", expected="a wheel, an object or a folder")
    wheels = sorted(path.glob("*.whl")) if path.is_dir() else []
    return wheels or [path]


def _device(options: Mapping[str, str], root: Path) -> str:
    if "device" in options:
        return options["device"]
    first = load(options["recipe"], root).target.cuda_arch[0]
    return f"{first.major}.{first.minor}"


def _before(paths: Sequence[Path], options: Mapping[str, str], root: Path) -> FileFacts:
    """The other wheel. Raises UsageError when the paths are wheels, and none of its project."""
    before = inspect_path(Path(options["against"]), devices=(_device(options, root),))
    projects = [_project(path) for path in paths]
    if before.wheel and all(projects) and canonicalize_name(before.wheel.name) not in projects:
        raise UsageError(
            f"against={options['against']} is a wheel of {before.wheel.name}",
            expected=f"one of {' or '.join(sorted(set(projects)))}, as what is verified",
            remedy="name another wheel of the same project, or leave against= out",
        )
    return before


def _by_device(
    options: Mapping[str, str], context: Context, _root: Path, before: FileFacts | None
) -> Callable[[Path], Judged]:
    wanted = for_device(options["device"])

    def ask(path: Path) -> Judged:
        verdict, file = examine(path, wanted, context)
        return Judged(path, wanted, "", verdict, file, counterpart(file, before))

    return ask


def _by_recipe(
    options: Mapping[str, str], context: Context, root: Path, before: FileFacts | None
) -> Callable[[Path], Judged]:
    recipe = load(options["recipe"], root)
    files = pinned(recipe, root)

    def ask(path: Path) -> Judged:
        package = _package(path, recipe, options.get("package", ""))
        wanted = expectations_for(recipe, package, root)
        other = before and (before.wheel is None or canonicalize_name(before.wheel.name) == wanted.name)
        hint = hint_from(package, context.store, before.objects if before and other else ())
        verdict, file = examine(path, wanted, context, files, hint)
        return Judged(path, wanted, package.name, verdict, file, counterpart(file, before))

    return ask


def _package(path: Path, recipe: Recipe, named: str) -> Package:
    """By its name on the command line, by the wheel's file name, or by the component that an object is."""
    name = named or _project(path)
    for package in recipe.packages:
        if package.name == name or (not name and any(_is(path, part) for part in package.components)):
            return package
    raise UsageError(
        f"{path.name} is of no package of recipe {recipe.name}",
        expected=", ".join(package.name for package in recipe.packages),
        remedy="say which one with package=NAME",
    )


def _is(path: Path, component: str) -> bool:
    return any(fnmatchcase(path.name, pattern) for pattern in patterns(component))


def _project(path: Path) -> str:
    try:
        return canonicalize_name(parse_wheel_filename(path.name)[0])
    except ValueError:  # InvalidWheelFilename, InvalidVersion, or a number of thousands of digits
        return ""


def _document(judged: Judged) -> dict[str, Any]:
    device, verdict = judged.wanted.device, judged.verdict
    other = other_version(judged.file, judged.before)
    return {
        "path": str(judged.path),
        "sha256": judged.file.sha256,
        "good": verdict.good,
        "device": device,
        "package": judged.package,
        "against": {"path": judged.before.path, "other_version": other} if judged.before else None,
        "archs_asked": list(judged.wanted.archs),
        "findings": [_row(finding) for finding in verdict.findings],
        "accepted": [_row(accepted.finding) | {"reason": accepted.reason} for accepted in verdict.accepted],
        "proven": [
            {"object": p.path, "kernel": p.proof.kernel, "needs": p.proof.needs, "kernels": p.kernels, "count": p.count}
            for p in proven(judged.file, judged.wanted)
        ],
        "objects": [
            {
                "path": found.path,
                "archs": list(verdict.archs[found.path]),
                "native": found.devices[device].native,
                "jit": found.devices[device].jit,
                "none": found.devices[device].none,
            }
            for found in judged.file.objects
        ],
    }


def _row(finding: Finding) -> dict[str, Any]:
    row = {"rule": finding.rule, "where": finding.where, "message": finding.message, "remedy": finding.remedy}
    return {**row, "names": list(finding.names)}


def _text(judged: Judged) -> list[str]:
    verdict, device = judged.verdict, judged.wanted.device
    count = len(verdict.findings)
    lines = [f"{judged.path.name}: {'good' if verdict.good else f'{count} finding' + 's' * (count != 1)}"]
    if other := other_version(judged.file, judged.before):
        lines.append(f"  before is of another version: {other}")
    for found in judged.file.objects:
        runs = found.devices[device]
        archs = ", ".join(verdict.archs[found.path]) or "no device code"
        kernels = f"; on {device}: {runs.native} native, {runs.jit} compiled at load, {runs.none} not at all"
        lines.append(f"  {found.path}: {archs}{kernels if found.images else ''}")
    lines += (
        f"  proven: {p.path}: {counted(p.kernels, 'kernel')} like {p.proof.kernel} with {p.proof.needs} ({p.count})"
        for p in proven(judged.file, judged.wanted)
    )
    if verdict.findings:
        lines.append(told(verdict.findings))
    for accepted in verdict.accepted:
        lines.append(f"  accepted, {accepted.finding.rule}: {accepted.finding.where}: {accepted.finding.message}")
        lines.append(f"      because: {accepted.reason}")
    return lines
