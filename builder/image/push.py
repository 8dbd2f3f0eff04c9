"""To a registry and nowhere else: the image and its bill of materials, by skopeo, digests kept."""

from __future__ import annotations

from builder.context import Context
from builder.errors import PublishError, RunError, ToolchainError
from builder.image.base import INSTALL
from builder.inspect.oci import ContainerFacts


def push_image(facts: ContainerFacts, target: str, context: Context) -> str:
    """Push to `[docker://]REGISTRY/NAME[:TAG]`; NAME@digest of what stands there.

    Registries on this machine are spoken to without TLS. Raises ToolchainError without skopeo, PublishError when the
    registry refuses.
    """
    name = target.removeprefix("docker://")
    plain = name.rpartition(":")[0] if ":" in name.rpartition("/")[2] else name
    local = ["--dest-tls-verify=false"] if plain.startswith(("localhost:", "127.0.0.1:")) else []
    copy = ["skopeo", "copy", "--preserve-digests", *local]
    layout = facts.reference
    attached = f"{plain}:{facts.digest.replace(':', '-')}.sbom"
    try:
        context.run([*copy, layout, f"docker://{name}"], log=context.logs / "push.log")
        context.run([*copy, f"{layout}-sbom", f"docker://{attached}"], log=context.logs / "push-sbom.log")
    except RunError as error:
        if isinstance(error.__cause__, OSError):
            raise ToolchainError("skopeo is not here", expected="skopeo", remedy=INSTALL) from error
        raise PublishError(
            f"the registry did not take the image: {error.what}",
            where=f"{name}; {context.logs / 'push.log'}",
            remedy="log in with skopeo login, and push again",
        ) from error
    return f"{plain}@{facts.digest}"
