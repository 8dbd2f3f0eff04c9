"""Upstream pull requests that a recipe requires: proven contained, else taken as a patch, else an error.

Proof is by ancestry where the history is in the repository (a `source=git` fetch), and by probes
on the tree where it is not (an sdist). Both have to agree when both can be asked.
"""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from builder.errors import BuilderError, FetchError, PatchError
from builder.git import Objects
from builder.model import Contains, Package, SourceTree
from builder.patches.load import Patch, read_patch
from builder.patches.probe import ProbeError, parse_probe
from builder.patches.view import Blobs, View
from builder.store import Store

FetchPatch = Callable[[str, str], bytes]
"""Brings the bytes at an address, proven to have a SHA-256; raises BuilderError when it cannot."""


@dataclass(frozen=True, slots=True)
class Pull:
    """What became of one: `contained` (`proof`: ancestry, probe or both) or `patch` with the patch to apply."""

    pr: int
    commit: str
    state: str
    proof: str
    patch: Patch | None = None


def prove(package: Package, source: SourceTree, fetch: FetchPatch | None = None) -> tuple[Pull, ...]:
    """Prove each pull request that a package requires, or bring its patch from the upstream repository.

    Without `fetch`, nothing is brought. Raises PatchError for one that is neither in the tree nor
    to be had, for probes and ancestry that contradict each other, and for one that nothing can prove.
    """
    objects = Objects(source.git_dir)
    asked = _Asked(package, source, objects, View(Blobs(objects), source.tree), fetch)
    return tuple(_one(item, asked) for item in package.contains)


def from_web(store: Store) -> FetchPatch:
    """A fetcher of patches over HTTP(S) that keeps them in the store under their digest."""

    def fetch(address: str, sha256: str) -> bytes:
        known = store.blob(sha256)
        return (known or store.put(_chunks(address), sha256, address)).read_bytes()

    return fetch


def _chunks(address: str) -> Iterator[bytes]:
    if not address.startswith(("https://", "http://")):
        raise FetchError(f"{address} is no web address", where=address, remedy="give git an https address")
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310  the scheme was just looked at
            while chunk := answer.read(1 << 16):
                yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise FetchError(
            f"{address} cannot be read: {error}", where=address, remedy="try again with network"
        ) from error


@dataclass(frozen=True, slots=True)
class _Asked:
    package: Package
    source: SourceTree
    objects: Objects
    view: View
    fetch: FetchPatch | None

    def by_history(self, commit: str) -> bool | None:
        """Ancestry from the source's own commit or from upstream's, wherever the history is."""
        heads = (self.source.commit, self.package.commit)
        return next((told for head in heads if (told := self.objects.is_ancestor(commit, head)) is not None), None)


def _one(item: Contains, asked: _Asked) -> Pull:
    by_history = asked.by_history(item.commit)
    by_probe = _probed(item, asked.view)
    known = {name: answer for name, answer in (("ancestry", by_history), ("probe", by_probe)) if answer is not None}
    if not known:
        raise PatchError(
            f"nothing can show whether PR {item.pr} is contained",
            where=f"contains, pr = {item.pr}",
            expected="a probe, since this source has no history",
            remedy='add probe = ["PATH: text …"] that is true only with it',
        )
    if len(set(known.values())) > 1:
        raise PatchError(
            f"PR {item.pr}: history and probe contradict each other",
            where=f"contains, pr = {item.pr}",
            expected=f"the same answer; ancestry says {_word(by_history)}, the probe {_word(by_probe)}",
            remedy="mend the probe, or the commit: it must be the merge commit",
        )
    if all(known.values()):
        return Pull(item.pr, item.commit, "contained", " and ".join(known))
    return _brought(item, asked.package.git, asked.fetch)


def _probed(item: Contains, view: View) -> bool | None:
    try:
        probes = [parse_probe(text) for text in item.probe]
    except ProbeError as error:
        raise PatchError(
            f"PR {item.pr}: {error}", where=f"contains, pr = {item.pr}", remedy="see the forms in docs/patches.md"
        ) from error
    return all(probe.holds(view.read) for probe in probes) if probes else None


def _brought(item: Contains, git: str, fetch: FetchPatch | None) -> Pull:
    address = f"{git.removesuffix('.git')}/commit/{item.commit}.patch"
    if fetch is None or not item.sha256:
        missing = "its patch has no pinned sha256" if fetch is not None else "there is no network to bring it"
        raise _lacking(item, f"the pinned source lacks it, and {missing}", address)
    try:
        data = fetch(address, item.sha256)
    except BuilderError as error:
        raise _lacking(item, "the pinned source lacks it, and its patch cannot be had", address) from error
    return Pull(item.pr, item.commit, "patch", "fetched", read_patch(f"pr-{item.pr}.patch", data))


def _lacking(item: Contains, why: str, address: str) -> PatchError:
    return PatchError(
        f"PR {item.pr} is required: {why}",
        where=f"contains, pr = {item.pr}, commit {item.commit}",
        expected=f"a release that has it, or {address} with a pinned digest",
        remedy="pin a later release, or add sha256 to the requirement where that address can be reached",
    )


def _word(answer: bool | None) -> str:
    return {True: "yes", False: "no", None: "nothing"}[answer]
