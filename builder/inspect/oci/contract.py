"""An image's facts as a versioned JSON document, and as text for people."""

from __future__ import annotations

from typing import Any

from builder.inspect.contract import human_size
from builder.inspect.oci.facts import ContainerFacts

VERSION = 1


def image_json(image: ContainerFacts) -> dict[str, Any]:
    """The `inspect oci:PATH --json` document of one image, plain values only."""
    return {
        "reference": image.reference,
        "digest": image.digest,
        "config": image.config_digest,
        "platform": f"{image.system}/{image.architecture}",
        "created": image.created,
        "user": image.user,
        "env": dict(image.env),
        "labels": dict(image.labels),
        "annotations": dict(image.annotations),
        "entrypoint": list(image.entrypoint),
        "command": list(image.command),
        "healthcheck": list(image.healthcheck),
        "layers": [
            {"digest": layer.digest, "diff_id": layer.diff_id, "size": layer.size, "unpacked": layer.unpacked}
            | {"files": layer.files}
            for layer in image.layers
        ],
        "files": sum(entry.kind == "file" for entry in image.root.entries.values()),
        "projects": [{"name": name, "version": version} for name, version in projects(image)],
    }


def projects(image: ContainerFacts) -> list[tuple[str, str]]:
    """Name and version of every installed project, by its .dist-info folder, sorted."""
    found = set()
    for path in image.root.entries:
        folder, _, name = path.rpartition("/")
        if name == "METADATA" and folder.endswith(".dist-info"):
            stem = folder.rpartition("/")[2].removesuffix(".dist-info")
            found.add((stem.partition("-")[0], stem.partition("-")[2]))
    return sorted(found)


def image_text(image: ContainerFacts) -> str:
    """The same for people."""
    size = sum(layer.size for layer in image.layers)
    plain = sum(layer.unpacked for layer in image.layers)
    amount = f"{human_size(size)} to pull, {human_size(plain)} unpacked"
    lines = [
        f"{image.reference}  ({amount}, {image.digest or 'no manifest'})",
        f"  {image.system}/{image.architecture}, user {image.user or 'root'}, {' '.join(image.entrypoint)}",
    ]
    for number, layer in enumerate(image.layers):
        lines.append(f"  layer {number}: {human_size(layer.size)}, {layer.files} files, {layer.digest}")
    found = projects(image)
    lines.append(f"  {len(found)} Python projects: {', '.join(f'{name} {version}' for name, version in found[:12])}")
    return "\n".join(lines)
