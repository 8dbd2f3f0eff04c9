"""To a registry and nowhere else: the image and its bill of materials, by skopeo, digests kept."""

from __future__ import annotations

from pathlib import Path

from builder.context import Context
from builder.errors import PublishError, RunError, ToolchainError
from builder.inspect.oci import ContainerFacts
from builder.verify.image import INSTALL


def push_image(facts: ContainerFacts, target: str, context: Context) -> str:
    """Push to `[docker://]REGISTRY/NAME[:TAG]`; NAME@digest of what stands there.

    Registries on this machine are spoken to without TLS. Raises ToolchainError without skopeo, PublishError when the
    registry refuses, or when it took another image than the one that `facts` were read from.
    """
    name = target.removeprefix("docker://")
    plain = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    attached = f"{plain}:{facts.digest.replace(':', '-')}.sbom"
    with context.store.scratch() as work:
        told = _copy(facts.reference, name, work / "digest", context)
        if told != facts.digest:
            raise PublishError(
                f"{name} is now {told}, which is not the image that was judged",
                where=facts.reference,
                expected=f"{facts.digest}; another build put its image into this place meanwhile",
                remedy="push again when that build has ended: the image is judged anew, and the tag moved to it",
            )
        _copy(f"{facts.reference}-sbom", attached, work / "sbom-digest", context)
    return f"{plain}@{facts.digest}"


def _copy(source: str, name: str, digest: Path, context: Context) -> str:
    """Copy to the registry; the digest that skopeo says it wrote there."""
    local = ["--dest-tls-verify=false"] if name.startswith(("localhost:", "127.0.0.1:")) else []
    copy = ["skopeo", "copy", "--preserve-digests", "--digestfile", str(digest), *local]
    log = context.logs / "push.log"
    try:
        context.run([*copy, source, f"docker://{name}"], log=log)
        return digest.read_text(encoding="utf-8").strip()
    except RunError as error:
        if isinstance(error.__cause__, OSError):
            raise ToolchainError("skopeo is not here", expected="skopeo", remedy=INSTALL) from error
        raise PublishError(
            f"the registry did not take the image: {error.what}",
            where=f"{name}; {log}",
            remedy="log in with skopeo login, and push again",
        ) from error
