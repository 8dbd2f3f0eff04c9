"""The build record of a wheel as one flat list: each thing that its bytes came from, by name and digest."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.version import Version

from builder.archive import dist_info_file
from builder.errors import ArchiveError, InspectError, WheelError

RECORD_NAME = "spark-wheels.json"
"""The build record's name in dist-info."""

APPLIED = frozenset({"clean", "offset"})
"""States of a patch that changed the tree; the others found their work done by upstream."""

_READABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
_FORGES = {"github.com": "github", "bitbucket.org": "bitbucket"}
_GIT = re.compile(r"https?://(?P<host>[^/]+)/(?P<path>[^?#]+?)(?:\.git)?/?")


@dataclass(frozen=True, slots=True)
class Material:
    """One thing that a wheel came from.

    `kind`: sdist, commit, tree, result, patch, vendored, prebuilt, part (of a prebuilt wheel), file
    (taken from one), external, tool (a file of the lock), compiler or lock. `digests` are pairs of
    in-toto's names (sha256, gitCommit, gitTree) and hexadecimal digits.
    """

    kind: str
    name: str
    version: str = ""
    uri: str = ""
    digests: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """What no other material of the same wheel is called."""
        return f"{self.kind} {self.name}"

    @property
    def fact(self) -> str:
        """Version and digests in one line, to be compared."""
        return " ".join([self.version, *(f"{name}:{digits}" for name, digits in self.digests)]).strip()


def read_record(data: bytes, where: str) -> Mapping[str, Any]:
    """A build record's JSON; raises WheelError when it is none."""
    try:
        record = json.loads(data)
        _check_words(record)
    except _READABLE as error:
        raise damaged(where, error) from error
    return record  # type: ignore[no-any-return]


def _check_words(record: Mapping[str, Any]) -> None:
    """Names, versions, digests and the patches' headers are texts. Raises TypeError and the like."""
    package, recipe = record["package"], record["recipe"]
    Version(package["version"])
    said = [package["name"], package["version"], recipe["name"], recipe["digest"], record["builder"]]
    said += [*package["components"], *record["target"]["cuda_arch"]]
    for patch in record["patches"]:
        said += [patch["origin"], patch["description"], *patch["bugs"]]
    for each in materials(record):
        said += [each.name, each.version, each.uri, *(word for pair in each.digests for word in pair)]
    " ".join(said)


def record_in(wheel: Path) -> Mapping[str, Any] | None:
    """The build record inside a wheel, None in another tool's; InspectError for no wheel, WheelError for no record."""
    try:
        data = dist_info_file(wheel, RECORD_NAME)
    except ArchiveError as error:
        raise InspectError(error.what, where=error.where, expected=error.expected, remedy=error.remedy) from error
    return None if data is None else read_record(data, f"{wheel.name}: {RECORD_NAME}")


def damaged(where: str, error: Exception) -> WheelError:
    """The error for a record that says nothing."""
    return WheelError(
        "the build record cannot be read",
        where=where,
        expected=f"the record that a build writes ({type(error).__name__}: {error})",
        remedy="build the wheel again",
    )


def materials(record: Mapping[str, Any]) -> tuple[Material, ...]:
    """Everything that the record names, in a fixed order. Raises KeyError and the like for a damaged record."""
    return (
        *_source(record["package"]),
        *(_patch(patch) for patch in record["patches"] if patch["state"] in APPLIED),
        *(_vendored(part) for part in record["vendored"]),
        *(_external(each) for each in record["externals"]),
        *(_prebuilt(record["package"], record["prebuilt"]) if record["prebuilt"] else ()),
        *_toolchain(record["toolchain"]),
    )


def source_materials(name: str, version: str, pins: Mapping[str, str]) -> tuple[Material, ...]:
    """Upstream's sdist, commit, tree and the tree after the patches; `pins` as the build record names them."""
    at = f"{pins['git']}@{pins['upstream_commit']}"
    found = [
        Material("commit", name, "", f"git+{at}", (("gitCommit", pins["upstream_commit"]),)),
        Material("tree", name, "", f"git+{at}", (("gitTree", pins["tree"]),)),
        Material("result", name, "", f"git+{at}#patched", (("gitTree", pins["result_tree"]),)),
    ]
    if pins["sdist"]:
        uri = pypi(name, version, pins["sdist"])
        found.insert(0, Material("sdist", pins["sdist"], version, uri, (("sha256", pins["sdist_sha256"]),)))
    return tuple(found)


def patch_material(file: str, sha256: str) -> Material:
    """A patch file under patches/."""
    return Material("patch", file, "", f"patches/{file}", (("sha256", sha256),))


def vendored_material(name: str, version: str, tree: str = "") -> Material:
    """A library that upstream bundles, by the name that advisories use."""
    known = _known().get(name)
    uri = known["purl"].format(version=version) if known else f"pkg:generic/{name}@{version}"
    return Material("vendored", name, version, uri, (("gitTree", tree),) if tree else ())


def repository_material(kind: str, name: str, git: str, revision: str, digests: Mapping[str, str]) -> Material:
    """A repository at a commit or tag, as purl where its forge has a purl type."""
    match = _GIT.fullmatch(git)
    forge = _FORGES.get(match["host"]) if match else None
    uri = f"pkg:{forge}/{match['path'].lower()}@{revision}" if match and forge else f"git+{git}@{revision}"
    return Material(kind, name, revision, uri, tuple(sorted(digests.items())))


def file_material(kind: str, project: str, version: str, filename: str, sha256: str) -> Material:
    """A file of the package index."""
    return Material(kind, filename, version, pypi(project, version, filename), (("sha256", sha256),))


def pypi(project: str, version: str, filename: str = "") -> str:
    """The purl of a project, or of one of its files."""
    from packageurl import PackageURL

    return str(PackageURL("pypi", None, project, version, {"file_name": filename} if filename else None))


def _source(package: Mapping[str, Any]) -> tuple[Material, ...]:
    return source_materials(package["source"], package["upstream_version"], package)


def _patch(patch: Mapping[str, Any]) -> Material:
    return patch_material(patch["file"], patch["sha256"])


def _vendored(part: Mapping[str, Any]) -> Material:
    return vendored_material(part["name"], part["version"], part["tree"])


def _external(each: Mapping[str, Any]) -> Material:
    return repository_material("external", each["name"], each["git"], each["revision"], {"gitTree": each["tree"]})


def _prebuilt(package: Mapping[str, Any], taken: Mapping[str, Any]) -> Iterator[Material]:
    yield file_material("prebuilt", package["name"], package["upstream_version"], taken["wheel"], taken["sha256"])
    for part in taken["parts"]:
        commit = {"gitCommit": part["commit"]} if part["commit"] else {}
        yield repository_material("part", part["name"], part["git"], part["commit"] or part["tag"], commit)
    for path, sha256 in sorted(taken["taken"].items()):
        yield Material("file", path, "", "", (("sha256", sha256),))


def _toolchain(toolchain: Mapping[str, Any]) -> Iterator[Material]:
    name, _, version = str(toolchain["compiler"]).rpartition(" ")
    yield Material("compiler", name, version, f"pkg:generic/gcc@{version}")
    files: Sequence[Mapping[str, Any]] = toolchain["files"]
    for file in sorted(files, key=lambda file: str(file["filename"])):
        yield file_material("tool", file["project"], file["version"], file["filename"], file["sha256"])


@cache
def _known() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("known.toml").read_text(encoding="utf-8"))
