"""How long the radar takes, against `git apply --check` of each patch on each unpacked release.

    python benchmarks/radar.py STORE [RECIPE]

The releases must be in the store already (`python -m builder patches radar recipe=aeon7 store=STORE`
brings them). The files that the patches touch are unpacked before the clock starts, so that git is
only asked to check. The first number of the radar judges everything anew, the second one reads the
verdicts that the store has kept.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from builder.context import Context
from builder.git import Objects
from builder.model import Package
from builder.patches import Release
from builder.patches.load import load_series, path_of
from builder.patches.radar import Radar, radar_of
from builder.patches.superseded import watches
from builder.patches.view import Blobs
from builder.recipe import load
from builder.store import Store

ROOT = Path(__file__).parents[1]
_REF = "refs/spark-wheels/source/"


def main(store: Store, recipe: str) -> None:
    """Measure every package of a recipe that has patches."""
    context = Context(store, store.root / "logs")
    for package in load(recipe, ROOT).packages:
        if package.source or not package.patches:
            continue
        releases = kept_releases(context, package)
        taken, good = timed(partial(checked_by_git, context, package, releases))
        fresh, _ = timed(partial(judged, context, package, releases, None))
        judged(context, package, releases, store)
        kept, _ = timed(partial(judged, context, package, releases, store))
        print(f"{package.name}: {len(package.patches)} patches on {len(releases)} releases")
        print(f"  git apply --check {taken:6.2f} s ({good} apply, each alone on the release)")
        print(f"  radar, anew       {fresh:6.2f} s")
        print(f"  radar, kept       {kept:6.2f} s, {taken / kept:.0f} times faster than git")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def kept_releases(context: Context, package: Package) -> list[Release]:
    """The releases whose source is in the store."""
    objects = Objects(context.store.git_dir(package.name))
    return [Release(name.removesuffix("-sdist"), objects.tree_of(commit)) for name, commit in _refs(objects.git_dir)]


def _refs(git_dir: Path) -> Iterator[tuple[str, str]]:
    command = ["git", "for-each-ref", "--format=%(refname) %(objectname)", _REF]
    for line in subprocess.run(command, cwd=git_dir, capture_output=True, text=True, check=True).stdout.splitlines():
        name, commit = line.split()
        if name.endswith("-sdist"):
            yield name.removeprefix(_REF), commit


def judged(context: Context, package: Package, releases: Sequence[Release], store: Store | None) -> Radar:
    """The radar over the releases."""
    blobs = Blobs(Objects(context.store.git_dir(package.name)))
    watched = watches(package.superseded)
    return radar_of(package.name, package.version, load_series(package, ROOT), blobs, releases, store, watched)


def checked_by_git(context: Context, package: Package, releases: Sequence[Release]) -> tuple[float, int]:
    """Seconds of git alone, and how many checks were good."""
    objects = Objects(context.store.git_dir(package.name))
    series = load_series(package, ROOT)
    paths = {path for patch in series for path in patch.diff.paths}
    files = [path_of(package, ROOT, name) for name in package.patches]
    with tempfile.TemporaryDirectory() as folder:
        trees = [_unpacked(objects, release, paths, Path(folder) / release.version) for release in releases]
        start = _children()
        good = sum(_applies(tree, file) for tree in trees for file in files)
        return _children() - start, good


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _unpacked(objects: Objects, release: Release, paths: set[str], folder: Path) -> Path:
    folder.mkdir()
    for path in paths:
        entry = objects.entry(release.tree, path)
        if entry is not None:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(objects.read(entry.oid))
    return folder


def _applies(tree: Path, patch: Path) -> bool:
    command = ["git", "apply", "--check", str(patch)]
    env = {"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": "/"}
    return subprocess.run(command, cwd=tree, capture_output=True, env=env, check=False).returncode == 0


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Seconds and result; work that measures itself gives its own seconds."""
    start = time.process_time()
    result = work()
    if isinstance(result, tuple):
        return float(result[0]), result[1]
    return time.process_time() - start, result


if __name__ == "__main__":
    main(Store(Path(sys.argv[1])), sys.argv[2] if len(sys.argv) > 2 else "aeon7")
