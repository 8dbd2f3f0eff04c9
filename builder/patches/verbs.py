"""The verbs of `python -m builder patches …`: status, overlap, radar, refresh.

Where sources come from is the caller's affair (`Sources`): this stage imports no other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from packaging.version import InvalidVersion, Version

from builder.context import Context
from builder.errors import UsageError
from builder.git import Objects
from builder.model import Package, Recipe, SourceTree
from builder.patches import documents
from builder.patches.documents import Document, Standing
from builder.patches.load import load_series, unlisted
from builder.patches.overlap import Overlap, overlaps_of
from builder.patches.picture import picture
from builder.patches.radar import Radar, Release, radar_of
from builder.patches.refresh import RESUME, Refresh, resume, start, under_way
from builder.patches.result import result_of
from builder.patches.series import judge_series
from builder.patches.step import Step
from builder.patches.superseded import watches
from builder.patches.trace import Explanation, Past, explanations
from builder.patches.view import Blobs, View
from builder.store import atomic_write

_OPTIONS = {
    "status": ("recipe", "package", "to", "releases"),
    "overlap": ("recipe", "package"),
    "radar": ("recipe", "package", "releases", "picture"),
    "refresh": ("recipe", "package", "to"),
}


class Sources(Protocol):
    """Brings upstream trees into the package's repository of the store."""

    def pinned(self, package: Package) -> SourceTree:
        """The tree at the recipe's pin."""
        ...

    def release(self, package: Package, version: str) -> tuple[Package, SourceTree]:
        """Another release: the package with that release's pins, and its tree."""
        ...

    def releases(self, package: Package, wanted: str) -> Sequence[Release]:
        """Releases by a version range (`>=0.16,<=0.33`), "" for every one that there is."""
        ...


@dataclass(frozen=True, slots=True)
class Bench:
    """What every verb works with. `recipe_file` is where the packages' pins are written."""

    recipe: Recipe
    context: Context
    root: Path
    sources: Sources
    recipe_file: Path


def run_verb(words: Sequence[str], options: dict[str, str], bench: Bench) -> Document:
    """Run one verb; the JSON document that says what came of it (`good` false is a negative verdict).

    Raises UsageError for words, options or packages that do not exist, PatchError, and what the
    sources raise.
    """
    verb = words[0] if words else "status"
    if verb not in _OPTIONS:
        near = difflib.get_close_matches(verb, _OPTIONS, 1)
        raise UsageError(
            f"patches has no verb {verb!r}",
            expected=f"one of {', '.join(_OPTIONS)}" + (f"; did you mean {near[0]}?" if near else ""),
            remedy="run `python -m builder patches status recipe=NAME`",
        )
    _check(verb, words[1:], options)
    word = words[1] if words[1:] else ""
    packages = [_VERBS[verb](package, options, word, bench) for package in _packages(bench, options, word)]
    good = all(bool(package.get("good", True)) for package in packages)
    return {"version": 1, "verb": verb, "recipe": bench.recipe.name, "good": good, "packages": packages}


def status(
    package: Package, source: SourceTree, root: Path, *, past: Past | None = None
) -> tuple[tuple[Step, ...], tuple[tuple[str, Explanation], ...]]:
    """The state of every patch on a tree, and of each that is in conflict the explanation of its hunks."""
    blobs = Blobs(Objects(source.git_dir))
    steps = judge_series(load_series(package, root), blobs, source.tree)
    here = Release(package.version, source.tree)
    known = past or Past(blobs, here, here)
    told = [(step, explanations(step, known) if not step.verdict.state.good else ()) for step in steps]
    explained = tuple((step.patch.file, item) for step, items in told for item in items)
    return tuple(_moved(step, items) for step, items in told), explained


def standings(package: Package, source: SourceTree) -> tuple[Standing, ...]:
    """What upstream's tree says of each change that the recipe lists as superseded.

    Raises PatchError for a probe that cannot be understood.
    """
    view = View(Blobs(Objects(source.git_dir)), source.tree)
    return tuple((watch, watch.verdict(view)) for watch in watches(package.superseded))


def _moved(step: Step, items: Sequence[Explanation]) -> Step:
    """A step whose missing files were all found by likeness is in state `moved`, too."""
    gone = [item for item in items if item.verdict.reason == "missing"]
    if step.verdict.reason != "missing" or not all(item.moved_to for item in gone):
        return step
    notes = dict.fromkeys(f"{item.verdict.path} is now {item.moved_to}" for item in gone)
    return replace(step, verdict=replace(step.verdict, reason="moved", notes=tuple(notes)))


def overlaps(package: Package, source: SourceTree, root: Path) -> tuple[Overlap, ...]:
    """Which patches of the series touch the same files and lines, where it is pinned."""
    return overlaps_of(judge_series(load_series(package, root), Blobs(Objects(source.git_dir)), source.tree))


def radar(package: Package, context: Context, releases: Sequence[Release], root: Path) -> Radar:
    """The whole series against releases whose trees are in the package's repository of the store."""
    blobs = Blobs(Objects(context.store.git_dir(package.name)))
    series, watched = load_series(package, root), watches(package.superseded)
    return radar_of(package.name, package.version, series, blobs, releases, context.store, watched)


def _check(verb: str, rest: Sequence[str], options: dict[str, str]) -> None:
    extra = [word for word in rest if verb != "refresh" or word not in RESUME or len(rest) > 1]
    unknown = [name for name in options if name not in _OPTIONS[verb]]
    if extra or unknown:
        raise UsageError(
            f"patches {verb} does not take {', '.join([*extra, *(f'{name}=' for name in unknown)])}",
            expected=", ".join(f"{name}=" for name in _OPTIONS[verb]),
            remedy=f"give only those{'; refresh also takes continue, skip or abort' if verb == 'refresh' else ''}",
        )
    if verb == "refresh" and not rest and "to" not in options:
        raise UsageError("refresh needs a release", expected="to=VERSION", remedy="for example to=0.21.0")


def _packages(bench: Bench, options: dict[str, str], word: str) -> list[Package]:
    """The package asked for; without one, every package, or the one that `to` or a stopped refresh is about."""
    own = [package for package in bench.recipe.packages if not package.source]
    if "package" in options:
        return [_named(options["package"], own, bench.recipe)]
    if word:
        return [next((package for package in own if under_way(bench.context, package.name)), own[0])]
    return [min(own, key=lambda package: _distance(package.version, options["to"]))] if "to" in options else own


def _named(name: str, own: Sequence[Package], recipe: Recipe) -> Package:
    names = [package.name for package in own]
    if name in names:
        return own[names.index(name)]
    near = difflib.get_close_matches(name, names, 1)
    raise UsageError(
        f"recipe {recipe.name} has no package {name}",
        expected=", ".join(names) + (f"; did you mean {near[0]}?" if near else ""),
        remedy="name one of those",
    )


def _distance(pinned: str, wanted: str) -> tuple[int, ...]:
    """How far two versions are apart, part by part: `to=0.21.0` means vLLM 0.20.0, not FlashInfer 0.6.8."""
    try:
        pair = zip(Version(pinned).release, Version(wanted).release, strict=False)
    except InvalidVersion as error:
        raise UsageError(f"{wanted!r} is no version", where="to=", remedy="for example to=0.21.0") from error
    return tuple(abs(a - b) for a, b in pair)


def _status(package: Package, options: dict[str, str], _word: str, bench: Bench) -> Document:
    source = bench.sources.pinned(package)
    to = options.get("to", "")
    past, version = None, package.version
    if to:
        target, there = bench.sources.release(package, to)
        wanted = wanted_releases(package, options["releases"]) if "releases" in options else ""
        releases = tuple(bench.sources.releases(package, wanted)) if wanted else ()
        ends = Release(package.version, source.tree), Release(target.version, there.tree)
        past = Past(Blobs(Objects(there.git_dir)), *ends, releases=(ends[0], *releases, ends[1]))
        source, version = there, target.version
    steps, explained = status(package, source, bench.root, past=past)
    return documents.status_of(
        package.name,
        version,
        steps,
        explained,
        unlisted(package, bench.root),
        standings(package, source),
        None if to else result_of(package, source, steps),
    )


def _overlap(package: Package, _options: dict[str, str], _word: str, bench: Bench) -> Document:
    found = overlaps(package, bench.sources.pinned(package), bench.root)
    return {"package": package.name, "overlaps": [documents.overlap_of(item) for item in found]}


def _radar(package: Package, options: dict[str, str], _word: str, bench: Bench) -> Document:
    releases = bench.sources.releases(package, wanted_releases(package, options.get("releases", "")))
    found = radar(package, bench.context, releases, bench.root)
    document = documents.radar_of(found)
    if "picture" in options:
        path = Path(options["picture"]) / f"radar-{package.name}.svg"
        atomic_write(path, picture(found).encode())
        document["picture"] = str(path)
    return document


def wanted_releases(package: Package, option: str) -> str:
    """The range of `releases=` for one package: `>=0.16`, or by name, `vllm>=0.16;flashinfer-python>=0.6.4`.

    Without one, from four steps before the pin on: 0.20.0 gives `>=0.16`, 0.6.8 gives `>=0.6.4`.
    """
    for part in filter(None, option.split(";")):
        match = re.fullmatch(r"([A-Za-z][\w.-]*?)?\s*((?:[=<>!~]=?[^,]+,?)+)", part.strip())
        if match is None:
            raise UsageError(
                f"{part!r} is no range of releases",
                where="releases=",
                remedy="for example releases='>=0.16' or releases='vllm>=0.16;flashinfer-python>=0.6.4'",
            )
        if match[1] in {None, package.name}:
            return match[2]
    numbers = list(Version(package.version).release)
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return f">={'.'.join(map(str, [*numbers[:-1], max(0, numbers[-1] - 4)]))}"


def _refresh(package: Package, options: dict[str, str], word: str, bench: Bench) -> Document:
    step = next((known for known in RESUME if known == word), None)
    if step is not None:
        done = resume(step, package, bench.context, bench.root, bench.recipe_file)
    else:
        done = _start(package, options["to"], bench)
    return documents.refresh_of(done)


def _start(package: Package, to: str, bench: Bench) -> Refresh:
    source = bench.sources.pinned(package)
    target, there = bench.sources.release(package, to)
    return start(package, source, target, there, bench.context, bench.root, bench.recipe_file)


_VERBS: dict[str, Callable[[Package, dict[str, str], str, Bench], Document]] = {
    "status": _status,
    "overlap": _overlap,
    "radar": _radar,
    "refresh": _refresh,
}
