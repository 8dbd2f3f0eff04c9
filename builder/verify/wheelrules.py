"""Rules over the wheel as a file: its name, metadata, parts, size, and what the patches promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from builder.errors import WheelError
from builder.inspect.facts import FileFacts
from builder.patches.probe import Probe
from builder.supply import RECORD_NAME, read_record
from builder.verify.expect import Expectations
from builder.verify.installer import allows, in_force, pins, project, runs_on, takes
from builder.verify.rules import Fault
from builder.verify.versions import same

_TORCH = ("libtorch", "libc10")


@dataclass(frozen=True, slots=True)
class Contents:
    """What inspect does not tell of a wheel: its file names, its requirements, and a way to read a file.

    `refused` are files that an installer cannot unpack, `python` is what METADATA asks of Python, `form` the
    Wheel-Version.
    """

    names: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    read: Callable[[str], bytes | None] = lambda _: None
    refused: tuple[str, ...] = ()
    python: str = ""
    form: str = "1.0"


def wheel_faults(file: FileFacts, contents: Contents, wanted: Expectations) -> Iterator[Fault]:
    """Everything that the wheel itself contradicts; inspect's own findings come first."""
    for finding in file.findings:
        yield Fault(finding.rule, finding.where, finding.message, finding.remedy)
    if file.wheel is None:
        return
    where = file.path.rpartition("/")[2]
    for name in contents.refused:
        message = "files that an installer refuses to unpack, since the header of each contradicts the directory:"
        yield Fault("record", where, message, "build the wheel again; no tool writes such an archive", name)
    yield from _installs(contents, where, wanted)
    yield from _identity(file, where, wanted)
    yield from _torch(file, contents, where, wanted)
    yield from _parts(file, contents, wanted)
    done = applied_in(contents, file.wheel.dist_info)
    yield from _series(done, where, wanted)
    yield from _promises(contents, done, wanted)
    if wanted.max_bytes and file.size > wanted.max_bytes:
        message = f"the wheel is {file.size / 1e6:.1f} MB, its limit is {wanted.max_bytes / 1e6:.0f} MB"
        yield Fault("size", where, message, "strip objects and drop archs, or raise max_wheel_mb in [verify]")


def _installs(contents: Contents, where: str, wanted: Expectations) -> Iterator[Fault]:
    """What makes installers refuse the wheel, whatever is in it."""
    remedy = "mend the project's metadata, and build the wheel again"
    if contents.form.partition(".")[0] != "1":
        message = f"its Wheel-Version is {contents.form or 'not said'}; installers know 1.0"
        yield Fault("metadata", where, message, "build it with a tool that writes 1.0")
    for line in contents.requires:
        if not project(line):
            yield Fault("metadata", where, "METADATA requires what is no requirement:", remedy, line)
    if wanted.python and not runs_on(contents.python, wanted.python):
        message = f"METADATA says Requires-Python: {contents.python}, the recipe is for {wanted.python}"
        yield Fault("metadata", where, message, remedy)


def _identity(file: FileFacts, where: str, wanted: Expectations) -> Iterator[Fault]:
    wheel = file.wheel
    if wheel is None or not wanted.name:
        return
    if canonicalize_name(wheel.name) != wanted.name:
        yield Fault("wheel-name", where, f"it is {wheel.name}, not {wanted.name}", "give the wheel of that package")
    elif not same(wheel.version, wanted.version, public=True):
        message = f"it is version {wheel.version}, the recipe pins {wanted.version}"
        yield Fault("wheel-version", where, message, "build it again from the recipe")
    yield from _tags(wheel.tags, where, wanted)


def _tags(tags: tuple[str, ...], where: str, wanted: Expectations) -> Iterator[Fault]:
    platforms = {tag.rpartition("-")[2] for tag in tags}
    wrong = sorted(p for p in platforms if p != "any" and not p.endswith(f"_{wanted.machine}"))
    if wrong:
        message = f"its tags are for {', '.join(wrong)}, the recipe is for {wanted.machine}"
        yield Fault("wheel-tags", where, message, "build it for the recipe's platform")
    if wanted.python and not takes(wanted.python, tags):
        pythons = sorted({tag.rpartition("-")[0] for tag in tags})
        message = f"its tags are for {', '.join(pythons) or 'nothing'}, which Python {wanted.python} does not take"
        yield Fault("wheel-tags", where, message, "build it with the recipe's Python")


def _torch(file: FileFacts, contents: Contents, where: str, wanted: Expectations) -> Iterator[Fault]:
    """A wheel with code linked against torch runs with exactly that torch, so METADATA must say so."""
    named = [line for line in contents.requires if project(line) == "torch"]
    stated = [line for line in named if in_force(line, wanted.python, wanted.machine)]
    linked = sorted(found.path for found in file.objects if any(n.startswith(_TORCH) for n in found.elf.needed))
    if not wanted.torch or not (stated or linked):
        return
    wrong = [line for line in stated if not allows(line, wanted.torch)]
    if wrong:
        message = f"METADATA asks for {', '.join(wrong)}, it is built against torch {wanted.torch}"
    elif linked and not any(pins(line) for line in stated):
        said = ", ".join(named) or "nothing"
        message = f"{linked[0]} is linked against torch {wanted.torch}, METADATA says {said} of it"
    else:
        return
    yield Fault("torch", where, message, f"let METADATA say Requires-Dist: torch=={wanted.torch}")


def _parts(file: FileFacts, contents: Contents, wanted: Expectations) -> Iterator[Fault]:
    paths = [found.path for found in file.objects]
    for component, patterns in wanted.objects:
        if not any(fnmatchcase(path, pattern) for path in paths for pattern in patterns):
            message = f"the recipe asks for {component}, and no object of the wheel is that"
            yield Fault("component", component, message, "read configure's log for why it was left out")
    for pattern in wanted.files:
        if not any(fnmatchcase(name, pattern) for name in contents.names):
            message = "the recipe takes this from the official wheel, and it is not here"
            yield Fault("component", pattern, message, "build the wheel again; [package.prebuilt] names the files")


@dataclass(frozen=True, slots=True)
class Applied:
    """What a build record says of one patch: what became of it (clean, superseded …), and its digest."""

    state: str
    sha256: str


def applied_in(contents: Contents, dist_info: str) -> Mapping[str, Applied] | None:
    """The patches of the wheel's build record by name; None without a readable one."""
    data = contents.read(f"{dist_info}/{RECORD_NAME}")
    try:
        patches = () if data is None else read_record(data, RECORD_NAME)["patches"]
    except WheelError:
        return None
    return None if data is None else {p["file"]: Applied(p["state"], p.get("sha256", "")) for p in patches}


def _series(done: Mapping[str, Applied] | None, where: str, wanted: Expectations) -> Iterator[Fault]:
    """A wheel of an earlier series is another one, even where nothing in it tells."""
    if done is None or not wanted.patches:
        return
    asked = {patch.file: patch.sha256 for patch in wanted.patches}
    brought = {name for name in done if fnmatchcase(name, "pr-*.patch")}
    other = {name for name in asked.keys() & done.keys() if asked[name] not in {"", done[name].sha256}}
    for names, what in (
        (asked.keys() - done.keys(), "does not name these patches of the recipe:"),
        (done.keys() - asked.keys() - brought, "names patches that the recipe does not have:"),
        (other, "names these patches as they were before, with other digests:"),
    ):
        for name in sorted(names):
            yield Fault("patch", where, f"the build record {what}", "build it again from the recipe", name)


def _promises(contents: Contents, done: Mapping[str, Applied] | None, wanted: Expectations) -> Iterator[Fault]:
    """Probes on files that the wheel carries; a source that is only compiled is proven by its code.

    Only the build saw upstream's tree, so its record says what was superseded: once a patch is in, the wheel looks as
    if upstream had done it.
    """
    installed = installed_paths(contents.names)

    def holds(probe: Probe) -> bool:
        return probe.holds(lambda path: contents.read(installed.get(path, path)))

    for patch in wanted.patches:
        found = (done or {}).get(patch.file)
        if found is not None and found.state == "superseded":
            continue
        for probe in patch.probes:
            if _carried(probe, installed) and not holds(probe):
                message = f"{patch.file} expects of it what it does not hold:"
                yield Fault(
                    "patch", probe.path, message, "the patch was not in the built tree: build again", probe.text
                )


def installed_paths(names: tuple[str, ...]) -> Mapping[str, str]:
    """Path in the source tree → path in the wheel. FlashInfer carries its sources in flashinfer/data."""
    moved = {name.removeprefix("flashinfer/data/"): name for name in names if name.startswith("flashinfer/data/")}
    return moved | {name: name for name in names}


def _carried(probe: Probe, installed: Mapping[str, str]) -> bool:
    top = probe.path.partition("/")[0]
    named = any(path in installed for path in probe.paths)
    return named or (probe.path.endswith(".py") and any(name.startswith(f"{top}/") for name in installed))
