"""A whole series against many upstream releases: patch by release, state by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from builder.git import Entry
from builder.patches.group import grouped
from builder.patches.load import Patch
from builder.patches.series import judge_patch
from builder.patches.state import PatchVerdict, State
from builder.patches.step import Step
from builder.patches.superseded import Watch
from builder.patches.view import Blobs, File, View
from builder.store import Store, key_of, sha256_of


@dataclass(frozen=True, slots=True)
class Release:
    """An upstream release whose tree is in the package's git repository."""

    version: str
    tree: str


@dataclass(frozen=True, slots=True)
class Track:
    """One patch, or one change that nobody carries, over all releases, oldest first.

    `fits` are the releases where it applies; `breaks_at` is the first after the pin where it is in
    conflict, or needed after all; `contained_from` and `superseded_from` are the releases from which on, up to the
    newest, it is one or the other. "" where there is none.
    """

    file: str
    description: str
    verdicts: tuple[PatchVerdict, ...]
    fits: tuple[str, ...]
    breaks_at: str
    contained_from: str
    superseded_from: str


@dataclass(frozen=True, slots=True)
class Radar:
    """The table: releases oldest first, one track a patch in series order; `superseded` are those of no patch."""

    package: str
    pinned: str
    releases: tuple[str, ...]
    tracks: tuple[Track, ...]
    superseded: tuple[Track, ...] = ()


def radar_of(
    package: str,
    pinned: str,
    patches: Sequence[Patch],
    blobs: Blobs,
    releases: Sequence[Release],
    store: Store | None = None,
    watched: Sequence[Watch] = (),
) -> Radar:
    """Judge the series on each release. A patch is judged once for all releases with the same files.

    What patches promise (`Expects`) is asked; whether every file still parses is left to `status to=`.
    With a store, a release judged before by this very code with these very patches is read from there.
    """
    ordered = sorted(releases, key=lambda release: Version(release.version))
    memo = _Memo()
    series = _Series(tuple(patches), tuple(watched))
    table = [_row(series, blobs, release, memo, store) for release in ordered]
    versions = tuple(release.version for release in ordered)
    texts = [patch.header.description for patch in patches] + [watch.entry.reason for watch in watched]
    named = list(zip(series.parts, texts, strict=True))
    tracks = tuple(
        _track(name, text, [row[n] for row in table], versions, pinned) for n, ((name, _), text) in enumerate(named)
    )
    return Radar(package, pinned, versions, tracks[: len(patches)], tracks[len(patches) :])


@dataclass(frozen=True, slots=True)
class _Series:
    """What is judged on each release: the patches one upon the other, the rest on upstream's tree."""

    patches: tuple[Patch, ...]
    watched: tuple[Watch, ...]

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """Name and digest of each, patches first."""
        return (*((p.file, p.sha256) for p in self.patches), *((w.name, w.sha256) for w in self.watched))


def _row(series: _Series, blobs: Blobs, release: Release, memo: _Memo, store: Store | None) -> list[PatchVerdict]:
    key = key_of([_engine(), release.tree, series.parts])
    kept = store.record("radar", key) if store is not None else None
    if kept is not None:
        return [_read(name, sha256, kept[name]) for name, sha256 in series.parts]
    row = _one_release(series.patches, blobs, release, memo)
    row += [memo.ask(watch, View(blobs, release.tree)) for watch in series.watched]
    if store is not None:
        store.keep_record("radar", key, {verdict.file: _written(verdict) for verdict in row})
    return row


def _written(verdict: PatchVerdict) -> dict[str, object]:
    return {"state": verdict.state.value, "offset": verdict.offset, "reason": verdict.reason, "group": verdict.group}


def _read(name: str, sha256: str, kept: Any) -> PatchVerdict:  # noqa: ANN401  JSON that _written made
    state = State(kept["state"])
    return PatchVerdict(name, sha256, state, kept["offset"], kept["reason"], group=kept["group"])


@cache
def _engine() -> str:
    """A digest of this package's own source: other code, other verdicts."""
    return key_of([sha256_of(path) for path in sorted(Path(__file__).parent.glob("*.py"))])


def _one_release(patches: Sequence[Patch], blobs: Blobs, release: Release, memo: _Memo) -> list[PatchVerdict]:
    view = View(blobs, release.tree)
    steps = []
    for patch in patches:
        step = memo.judge(patch, view)
        steps.append(step)
        view = step.after
    return [step.verdict for step in grouped(steps)]


class _Memo:
    """Verdicts by patch and by every file that they depend on."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[PatchVerdict, Mapping[str, File | None]]] = {}
        self._asked: dict[object, PatchVerdict] = {}

    def ask(self, watch: Watch, view: View) -> PatchVerdict:
        paths = sorted({path for probe in watch.probes for path in probe.paths})
        key = (watch.name, tuple((path, view.entry(path)) for path in paths))
        if key not in self._asked:
            self._asked[key] = watch.verdict(view)
        return self._asked[key]

    def judge(self, patch: Patch, view: View) -> Step:
        key = (patch.file, self._inputs(patch, view))
        if key not in self._known:
            step = judge_patch(patch, view, semantic=False)
            mine = {path: step.after.get(path) for path in patch.diff.paths} if step.after is not view else {}
            self._known[key] = (step.verdict, mine)
        verdict, changes = self._known[key]
        after = view.copy() if changes else view
        for path, file in changes.items():
            after.set(path, file)
        return Step(patch, verdict, view, after)

    @staticmethod
    def _inputs(patch: Patch, view: View) -> tuple[tuple[str, Entry | None, str], ...]:
        probes = (*patch.header.expects, *patch.header.superseded_when)
        paths = sorted({*patch.diff.paths, *(path for probe in probes for path in probe.paths)})
        return tuple((path, view.entry(path), view.blocked(path)) for path in paths)


def _track(name: str, text: str, verdicts: Sequence[PatchVerdict], versions: Sequence[str], pinned: str) -> Track:
    after = [index for index, version in enumerate(versions) if Version(version) > Version(pinned)]
    return Track(
        file=name,
        description=text,
        verdicts=tuple(verdicts),
        fits=tuple(version for version, verdict in zip(versions, verdicts, strict=True) if verdict.state.applies),
        breaks_at=next((versions[index] for index in after if not verdicts[index].state.good), ""),
        contained_from=_from(State.CONTAINED, verdicts, versions),
        superseded_from=_from(State.SUPERSEDED, verdicts, versions),
    )


def _from(state: State, verdicts: Sequence[PatchVerdict], versions: Sequence[str]) -> str:
    """The first release of the unbroken run of a state that reaches the newest release."""
    first = ""
    for version, verdict in zip(reversed(versions), reversed(verdicts), strict=True):
        if verdict.state is not state:
            break
        first = version
    return first
