"""What an image must be, beside the wheels in it: platform, base, user, tools and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from builder.finding import Finding
from builder.inspect.oci import ContainerFacts, Entry
from builder.verify.image.loader import loader_findings
from builder.verify.image.own import Own, own_findings
from builder.verify.image.wheels import Installed, wheel_findings

BASE_DIGEST: Final = "org.opencontainers.image.base.digest"
BASE_NAME: Final = "org.opencontainers.image.base.name"

_MACHINES: Final = {"arm64": 0xB7, "amd64": 0x3E}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NUMBER = re.compile(r"[0-9]{1,10}")
_EXECUTABLE: Final = 0o111
_TRITON: Final = "/site-packages/triton/__init__.py"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of an image. Empty fields ask nothing.

    It must name one of the digests `bases` as what it stands on, and begin with `base_layers`, that base's diff_ids;
    `labels` must be there with these values; `wheels` must be installed, byte for byte, and with `own` nothing else.
    """

    architecture: str = "arm64"
    bases: tuple[str, ...] = ()
    base_layers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    wheels: tuple[Installed, ...] = ()
    own: Own | None = None


def image_findings(image: ContainerFacts, wanted: Wanted) -> tuple[Finding, ...]:
    """Every contradiction at once."""
    return (
        *_platform(image, wanted),
        *_base(image, wanted),
        *_user(image),
        *loader_findings(image),
        *_ptxas(image),
        *_compiler(image),
        *_start(image),
        *_writable(image),
        *_labels(image, wanted),
        *wheel_findings(image, wanted.wheels),
        *(own_findings(image, wanted.own, wanted.wheels, wanted.base_layers) if wanted.own else ()),
    )


def base_findings(image: ContainerFacts, wanted: Wanted) -> tuple[Finding, ...]:
    """What must already hold of a base, before anything is laid on it."""
    return (*_platform(image, wanted), *loader_findings(image), *_writable(image))


def _platform(image: ContainerFacts, wanted: Wanted) -> Iterator[Finding]:
    found = f"{image.system}/{image.architecture}"
    if found != f"linux/{wanted.architecture}":
        message = f"the image is for {found}, not linux/{wanted.architecture}"
        yield Finding("image-platform", image.reference, message, "build it for the recipe's platform")
    machine = _MACHINES.get(wanted.architecture)
    wrong = sorted(path for path, entry in image.root.entries.items() if _machine(entry) not in {None, machine})
    ours = [path for path in wrong if _native(path)]
    if ours:
        message = f"{len(ours)} files on the path are code of another machine: {', '.join(ours[:3])}"
        yield Finding("image-platform", f"/{ours[0]}", message, "take the base and the wheels of the right platform")


def _machine(entry: Entry) -> int | None:
    """e_machine of a 64-bit little-endian ELF file; None of anything else."""
    if entry.head[:6] != b"\x7fELF\x02\x01" or len(entry.head) < 20:
        return None
    return int.from_bytes(entry.head[18:20], "little")


def _native(path: str) -> bool:
    """Programs and libraries that would be run or loaded; packages may carry data for other machines."""
    return path.startswith(("bin/", "sbin/", "lib/", "usr/bin/", "usr/sbin/", "usr/lib/", "usr/local/", "opt/")) and (
        "/bin/" in f"/{path}" or path.endswith(".so") or ".so." in path
    )


def _base(image: ContainerFacts, wanted: Wanted) -> Iterator[Finding]:
    said = image.annotations.get(BASE_DIGEST) or image.labels.get(BASE_DIGEST, "")
    if _DIGEST.fullmatch(said) is None:
        yield Finding(
            "image-base",
            image.reference,
            f"it does not say by digest what it stands on: {BASE_DIGEST} is {said or 'not there'}",
            "pin the base as NAME@sha256:… and build again; a tag says something else tomorrow",
        )
    elif wanted.bases and said not in wanted.bases:
        message = f"it says that it stands on {said}, expected {' or '.join(wanted.bases)}"
        yield Finding("image-base", image.reference, message, "build it on the pinned base, or give base= to verify")
    elif wanted.bases and not wanted.base_layers:
        message = f"that it stands on {said} is only what it says: the layers of that base are not known here"
        remedy = "run image lock where the base's registry is reached, or give the base as base=oci:PATH"
        yield Finding("image-base", image.reference, message, remedy)
    found = tuple(layer.diff_id for layer in image.layers)
    if wanted.base_layers and found[: len(wanted.base_layers)] != wanted.base_layers:
        message = "its first layers are not those of the base that it names"
        yield Finding("image-base", image.reference, message, "build it again from the pinned base")


def _user(image: ContainerFacts) -> Iterator[Finding]:
    name = image.user.partition(":")[0]
    number = name if _NUMBER.fullmatch(name) else _numbers(image).get(name, "")
    if not number or int(number) == 0:
        known = "" if number or not name else f": {name} is not in /etc/passwd"
        yield Finding(
            "image-user",
            "USER",
            f"it runs as {image.user or 'root'}{known}",
            "give the Containerfile a USER with a number above 0",
        )


def _numbers(image: ContainerFacts) -> dict[str, str]:
    rows = (line.split(":") for line in (image.root.text("etc/passwd") or "").splitlines())
    return {row[0]: row[2] for row in rows if len(row) > 2 and _NUMBER.fullmatch(row[2])}


def _ptxas(image: ContainerFacts) -> Iterator[Finding]:
    """Triton's own ptxas may be older than the device; the image brings one and names it."""
    path = image.env.get("TRITON_PTXAS_PATH", "")
    entry = image.root.entry(path) if path else None
    machine = _MACHINES.get(image.architecture)
    if entry is None or entry.kind != "file" or not entry.mode & _EXECUTABLE or _machine(entry) != machine:
        state = "is not set" if not path else f"names {path}, which is no program for {image.architecture}"
        remedy = "let it name the ptxas of the locked nvidia-cuda-nvcc: Triton's own need not know sm_121a"
        yield Finding("image-ptxas", "TRITON_PTXAS_PATH", f"it {state}", remedy)


def _compiler(image: ContainerFacts) -> Iterator[Finding]:
    """Triton builds its launcher in C at its first kernel: without compiler or Python.h, serving ends there."""
    sites = [path.removesuffix("/triton/__init__.py") for path in image.root.entries if path.endswith(_TRITON)]
    if not sites:
        return
    folders = image.env.get("PATH", "").split(":")
    if not any(image.root.entry(f"{folder}/{name}") for folder in folders for name in ("gcc", "clang")):
        yield _missing("PATH", "there is no gcc or clang", "gcc and libc6-dev")
    python = sites[0].rpartition("/lib/")[2].partition("/")[0]
    if image.root.entry(f"/usr/include/{python}/Python.h") is None:
        yield _missing(f"/usr/include/{python}", "there is no Python.h", f"{python}-dev")


def _missing(where: str, what: str, packages: str) -> Finding:
    message = f"{what}, and Triton compiles its launcher at the first kernel that it starts"
    return Finding("image-compiler", where, message, f"let [image] packages, or the base, bring {packages}")


def _start(image: ContainerFacts) -> Iterator[Finding]:
    program = image.entrypoint[0] if image.entrypoint else ""
    entry = image.root.entry(program) if program else None
    if entry is None or entry.kind != "file" or not entry.mode & _EXECUTABLE:
        state = f"names {program}, which cannot be run" if program else "is not there"
        yield Finding("image-entrypoint", "ENTRYPOINT", f"it {state}", "build the image again")
    if image.healthcheck[:1] not in {("CMD",), ("CMD-SHELL",)}:
        message = "the image has no health check, so nothing sees a server that has stopped answering"
        yield Finding("image-health", "HEALTHCHECK", message, "build the image again")


def _writable(image: ContainerFacts) -> Iterator[Finding]:
    """What everybody may change, outside of folders that are sticky for it, such as /tmp."""
    loose = sorted(
        path
        for path, entry in image.root.entries.items()
        if entry.kind in {"file", "folder"} and entry.mode & 0o002 and not entry.mode & 0o1000
    )
    if loose:
        message = f"{len(loose)} paths may be written by anyone: {', '.join(loose[:3])}"
        yield Finding("image-writable", f"/{loose[0]}", message, "give them the mode 0755 or 0644")


def _labels(image: ContainerFacts, wanted: Wanted) -> Iterator[Finding]:
    for name, value in wanted.labels.items():
        found = image.labels.get(name)
        if found != value:
            message = f"it says {found or 'nothing'}, expected {value}"
            yield Finding("image-label", name, message, "build the image again from the recipe as it is now")
