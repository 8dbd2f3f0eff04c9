"""Images in registries, by digest alone: skopeo copies them into a layout, or tells the layers of one."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from builder.context import Context
from builder.errors import DigestError, FetchError, RecipeError, RunError, ToolchainError
from builder.inspect.oci import REMOTE, ContainerFacts, base_of, inspect_image
from builder.model import LockedBase

INSTALL: Final = "apt-get install buildah skopeo"
_PINNED = re.compile(r"(?P<name>[^\s@]+)@(?P<digest>sha256:[0-9a-f]{64})")
_TAG = re.compile(r":[^:/]+$")
_LOCAL: Final = ("localhost:", "127.0.0.1:")


def pinned(text: str) -> tuple[str, str]:
    """Name and digest of `[docker://]NAME[:TAG]@sha256:…`; raises RecipeError for an image by tag alone."""
    match = _PINNED.fullmatch(text.removeprefix(REMOTE))
    if match is None:
        raise RecipeError(
            f"{text} is not pinned by digest",
            expected="NAME@sha256:…, or oci:PATH of a local layout",
            remedy=f"look its digest up once: skopeo inspect {REMOTE}{text.removeprefix(REMOTE)}",
        )
    return match["name"], match["digest"]


def pull(name: str, digest: str, architecture: str, into: Path, context: Context) -> None:
    """Copy the image of that digest and architecture into a layout.

    Raises ToolchainError without skopeo, FetchError when the registry does not give it, and DigestError when what came
    is neither of that digest nor listed by the index that is.
    """
    with context.report.step(f"pull {name}"):
        _skopeo("copy", name, digest, architecture, f"oci:{into}", context)
    found = base_of(f"oci:{into}", f"linux/{architecture}").digest
    if found != digest and found not in _listed(name, digest, context):
        raise DigestError(f"{name} is another image than the pinned one", expected=f"{digest}, got {found}")


def remote_base(name: str, digest: str, architecture: str, context: Context) -> LockedBase:
    """The diff_ids and the variables of that image, by its config alone. Raises as `pull` does."""
    said = _skopeo("inspect", name, digest, architecture, "", context)
    try:
        config = json.loads(said[said.index("{") :])
        layers, env = config["rootfs"]["diff_ids"], config.get("config", {}).get("Env") or ()
        return LockedBase(digest, tuple(map(str, layers)), tuple(map(str, env)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FetchError(f"skopeo does not say the layers of {name} ({error})", where=said[:200]) from error


def inspect_anywhere(reference: str, architecture: str, context: Context) -> ContainerFacts:
    """`inspect_image`, also of `docker://NAME@sha256:…`, which is pulled into a layout that is gone afterwards."""
    platform = f"linux/{architecture}"
    if not reference.startswith(REMOTE):
        return inspect_image(reference, platform)
    name, digest = pinned(reference)
    with context.store.scratch() as work:
        pull(name, digest, architecture, work / "image", context)
        return replace(inspect_image(f"oci:{work / 'image'}", platform), reference=reference)


def _listed(name: str, digest: str, context: Context) -> set[str]:
    """The images of an index, whose own bytes have that digest."""
    with context.store.scratch() as work:
        _skopeo("copy", name, digest, "", f"dir:{work}", context)
        data = (work / "manifest.json").read_bytes()
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
        return set()
    return {str(each.get("digest")) for each in json.loads(data).get("manifests", ())}


def _skopeo(verb: str, name: str, digest: str, architecture: str, into: str, context: Context) -> str:
    """`copy` to `into` (the index alone without an architecture), or `inspect`; what it said."""
    source = f"{REMOTE}{_TAG.sub('', name)}@{digest}"
    platform = ["--override-os", "linux", "--override-arch", architecture] if architecture else []
    tls = f"--{'src-' if verb == 'copy' else ''}tls-verify=false"
    words = [verb, *platform, *([tls] if name.startswith(_LOCAL) else [])]
    if verb == "copy":
        words += ["--preserve-digests", *([] if architecture else ["--multi-arch", "index-only"]), source, into]
    else:
        words += ["--config", source]
    try:
        return context.run(["skopeo", *words], log=context.logs / "skopeo.log" if into else None).output
    except RunError as error:
        if isinstance(error.__cause__, OSError):
            raise ToolchainError("skopeo is not here", expected="skopeo", remedy=INSTALL) from error
        raise FetchError(
            f"the registry does not give {name}: {error.what}",
            where=str(context.logs / "skopeo.log") if into else "",
            expected=error.expected,  # with what it said
            remedy="reach the registry (skopeo login, where it asks), or copy it elsewhere: skopeo copy … oci:PATH",
        ) from error
