"""What an image of ours is, beside its wheels: our programs, variables and layers, and nothing that nobody brought."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from builder.finding import Finding
from builder.inspect.oci import ContainerFacts, Entry
from builder.verify.image.places import (
    COMMAND,
    ENTRYPOINT,
    GROUP_LINE,
    HEALTH,
    HOME,
    PREFIX,
    SBOM,
    UID,
    USER,
    USER_ID,
    USER_LINE,
    Python,
    healthcheck,
)
from builder.verify.image.wheels import Installed, finding, stated

_AGAIN: Final = "build the image again; change recipes and wheels, never images"
_USERS: Final[Mapping[str, str]] = {"etc/passwd": USER_LINE, "etc/group": GROUP_LINE}
"""Who the users are: each file with the line that is ours."""

_TELLING: Final = frozenset({"Volumes", "StopSignal", "OnBuild", "Shell"})
"""What a runtime, or a build on top, does beside what the entrypoint is: a volume over our folder outlives it."""

_FIELDS: Final = 4
"""Name, password, number, and the group's number or members: what a line of either has at least."""

_ABOVE: Final = frozenset({"etc", "opt", "home"})
_LOOSE: Final = 0o7022
"""Bits that nothing of ours has: setuid and its like, and what lets a group or anyone write."""

_IDLE: Final = frozenset({"security.selinux", "user.overlay.impure", "user.overlay.origin"})
"""Attributes that hosts and rootless builders leave beside files, and that give no right and hide nothing."""


@dataclass(frozen=True, slots=True)
class Own:
    """What is asked: `files` path → SHA-256, `env` each variable's values, any of them, and how many `layers` are ours.

    `inherited` are the base's own variables. With `packages` there may be one layer more, of the distribution's own
    packages: the first on the base's.
    """

    python: Python
    files: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, Collection[str]] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)
    layers: int = 0
    packages: bool = False


def own_findings(
    image: ContainerFacts, own: Own, wheels: tuple[Installed, ...], base: tuple[str, ...]
) -> Iterator[Finding]:
    """Files, links and variables that are not ours, what nobody brought, and layers too many."""
    changed = [path for path, sha256 in own.files.items() if _sha256(image.root.entry(path)) != sha256]
    changed += [path for path, target in own.python.links.items() if not _points(image, path, target)]
    if changed:
        yield finding("image-own", PREFIX, changed, "is not as the builder and the lock have it", _AGAIN)
    yield from _config(image, own)
    yield from _unlocked(image, own, wheels)
    yield from _unknown(image, own, wheels)
    if base:
        yield from _more_variables(image, own)
        yield from _accounts(image)
        yield from _layers(image, own, len(base))


def _sha256(entry: Entry | None) -> str:
    return "" if entry is None else entry.sha256


def _points(image: ContainerFacts, path: str, target: str) -> bool:
    entry = image.root.entries.get(path.strip("/"))
    return entry is not None and entry.kind == "link" and entry.target == target


def _config(image: ContainerFacts, own: Own) -> Iterator[Finding]:
    for name, values in own.env.items():
        if image.env.get(name) not in values:
            message = f"it is {image.env.get(name, 'not set')!r}, expected {' or '.join(map(repr, values))}"
            yield Finding("image-env", f"ENV {name}", message, _AGAIN)
    if image.entrypoint != (ENTRYPOINT,):
        yield Finding("image-entrypoint", "ENTRYPOINT", f"it is not {ENTRYPOINT} alone", _AGAIN)
    if image.command != COMMAND:
        message = f"it runs {' '.join(image.command) or 'nothing'} when nobody says what, expected {' '.join(COMMAND)}"
        yield Finding("image-entrypoint", "CMD", message, _AGAIN)
    if image.folder != HOME:
        yield Finding("image-entrypoint", "WORKDIR", f"it starts in {image.folder or '/'}, expected {HOME}", _AGAIN)
    yield from _beside(image)
    if image.user != USER_ID:
        yield Finding("image-user", "USER", f"it runs as {image.user or 'root'}, expected {USER_ID}", _AGAIN)


def _beside(image: ContainerFacts) -> Iterator[Finding]:
    """What a runtime is told to do beside the entrypoint."""
    if image.healthcheck != ("CMD", HEALTH):
        yield Finding("image-health", "HEALTHCHECK", f"it does not run {HEALTH} alone", _AGAIN)
    elif image.settings.get("Healthcheck") != healthcheck():
        yield Finding("image-health", "HEALTHCHECK", "its times are others than the builder sets", _AGAIN)
    for name in sorted(_TELLING & image.settings.keys()):
        if image.settings[name]:
            message = f"it is {image.settings[name]!r}, and the builder sets none"
            yield Finding("image-entrypoint", name, message, _AGAIN)


def _more_variables(image: ContainerFacts, own: Own) -> Iterator[Finding]:
    """Any variable may turn a program: what neither the builder sets nor the base has, nobody has looked at."""
    for name, value in image.env.items():
        if name not in own.env and own.inherited.get(name) != value:
            message = f"it is {value!r}, and neither the builder nor the base sets that"
            yield Finding("image-env", f"ENV {name}", message, _AGAIN)


def _accounts(image: ContainerFacts) -> Iterator[Finding]:
    """Who may become whom: the layers that may change these files may add our user and nobody else's rights."""
    for path, line in _USERS.items():
        entry = image.root.entries.get(path)
        lines = (image.root.text(path) or "").splitlines()
        rows = [each.split(":") for each in lines]
        wrong = [":".join(row) for row in rows if len(row) < _FIELDS or not row[1] or USER in row[3].split(",")]
        wrong += [":".join(row) for row in rows if row[2:3] == ["0"] and row[0] != "root"]
        if entry is not None and (entry.kind != "file" or line not in lines or wrong):
            said = f"it has {wrong[0]!r}" if wrong else f"it is no plain file with the line {line!r}"
            yield Finding("image-user", f"/{path}", said, _AGAIN)


def _unlocked(image: ContainerFacts, own: Own, wheels: tuple[Installed, ...]) -> Iterator[Finding]:
    """Installed projects that are neither locked nor ours; those that lack are found with their wheels."""
    site = own.python.site.strip("/")
    infos = {path.removeprefix(f"{site}/").partition("/")[0] for path in image.root.below(site)}
    known = {wheel.info for wheel in wheels}
    more = sorted(
        info for info in infos if info.endswith((".dist-info", ".egg-info", ".egg-link")) and info not in known
    )
    if more:
        remedy = "lock what the wheels need (image lock), and build the image again"
        yield finding("image-lock", site, more, "is neither in the image's lock nor a wheel of the recipe", remedy)


def _unknown(image: ContainerFacts, own: Own, wheels: tuple[Installed, ...]) -> Iterator[Finding]:
    """Files below our folder, and the user's, that neither a wheel nor the builder brings."""
    root, site = image.root, own.python.site
    known = {root.real(f"{site}/{path}") for path in stated(wheels)}
    known |= {root.real(f"{site}/{w.info}/{name}") for w in wheels for name in ("RECORD", "INSTALLER")}
    known |= {place.strip("/") for place in (*own.files, *own.python.links, SBOM)}
    there = (path for folder in (PREFIX, HOME) for path in root.below(folder))
    more = sorted(path for path in there if root.entries[path].kind != "folder" and path not in known)
    if more:
        yield finding("image-stray", PREFIX, more, "is brought by no wheel and not by the builder", _AGAIN)


def _layers(image: ContainerFacts, own: Own, base: int) -> Iterator[Finding]:
    """Above base and packages nothing changes but our folder, the user's, and who the users are."""
    first = len(image.layers) - own.layers
    if first - base not in ({0, 1} if own.packages else {0}):
        more = " and one of packages" if own.packages else ""
        message = f"{len(image.layers) - base} layers lie on the base's {base}, expected {own.layers}{more}"
        yield Finding("image-layer", image.reference, message, _AGAIN)
        return
    above = {path: entry for path, entry in image.root.entries.items() if entry.layer >= first}
    wrong = sorted(path for path, entry in above.items() if not _is_ours(path, entry))
    if wrong:
        yield finding("image-layer", f"/{wrong[0]}", wrong, "is changed by a layer that may only bring wheels", _AGAIN)
    gone = sorted({path for layer in image.layers[first:] for path in layer.removed})
    if gone:
        yield finding("image-layer", f"/{gone[0]}", gone, "is taken away by a layer that may only bring wheels", _AGAIN)
    loose = sorted(path for path, entry in above.items() if not _is_held(path, entry))
    if loose:
        what = "has another owner, more rights or more attributes than the builder gives"
        yield finding("image-writable", f"/{loose[0]}", loose, what, _AGAIN)


def _is_held(path: str, entry: Entry) -> bool:
    """Root's and nobody else's to change, or the user's below home; no mode and no attribute gives a right."""
    owner = (UID, UID) if f"/{path}/".startswith(f"{HOME}/") else (0, 0)
    mode = 0 if entry.kind == "link" else entry.mode & _LOOSE
    return entry.owner == owner and not mode and set(entry.xattrs) <= _IDLE


def _is_ours(path: str, entry: Entry) -> bool:
    if path in _USERS or f"/{path}/".startswith((f"{PREFIX}/", f"{HOME}/")):
        return True
    return entry.kind == "folder" and path in _ABOVE
