"""The layout that a tool made, written as ours: the same config, history and annotations whatever the tool.

Tools put their own names and times into a config, and buildah leaves out the health check that OCI
images carry as an extension. Layers stay as the tool made them; config, manifest and index are written anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from builder.image.places import CREATED
from builder.store import atomic_write

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_EMPTY: Final = "application/vnd.oci.empty.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
SBOM_TYPE: Final = "application/vnd.cyclonedx+json"
_REF_NAME: Final = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True)
class Said:
    """What the image says of itself. `annotations` stand on the manifest, `labels` in the config."""

    tag: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    healthcheck: Mapping[str, object]
    steps: Sequence[str]
    sbom: bytes


def rewrite(layout: Path, said: Said) -> str:
    """Write config, manifest, SBOM artefact and index over what the tool left; the image's digest."""
    descriptor = _only(json.loads((layout / "index.json").read_bytes()), layout)
    manifest = _load(layout, descriptor)
    config = _config(_load(layout, manifest["config"]), said)
    layers = [_layer(entry) for entry in manifest["layers"]]
    stored = _blob(layout, _bytes(config), _CONFIG)
    image = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": stored,
        "layers": layers,
        "annotations": dict(said.annotations),
    }
    top = _blob(layout, _bytes(image), _MANIFEST)
    platform = {"os": config["os"], "architecture": config["architecture"]}
    listed = [
        {**top, "platform": platform, "annotations": {_REF_NAME: said.tag}},
        _sbom(layout, said, top),
    ]
    atomic_write(layout / "index.json", _bytes({"schemaVersion": 2, "mediaType": _INDEX, "manifests": listed}))
    atomic_write(layout / "oci-layout", _bytes({"imageLayoutVersion": "1.0.0"}))
    _drop_others(layout, {top["digest"], stored["digest"], *(layer["digest"] for layer in layers)}, listed[1])
    return str(top["digest"])


def _only(index: Mapping[str, Any], layout: Path) -> Mapping[str, Any]:
    """The image that the tool wrote; buildx may wrap it in one more index."""
    (descriptor,) = index["manifests"]
    return _only(_load(layout, descriptor), layout) if descriptor["mediaType"] == _INDEX else descriptor


def _config(config: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """`created`, history and labels are ours; a base's history stays."""
    run = {key: value for key, value in config["config"].items() if value not in (None, "", [], {})}
    run |= {"Labels": dict(said.labels), "Healthcheck": dict(said.healthcheck)}
    return {
        "architecture": config["architecture"],
        "os": config["os"],
        "created": CREATED,
        "config": run,
        "rootfs": config["rootfs"],
        "history": _history(config, said.steps),
    }


def _history(config: Mapping[str, Any], steps: Sequence[str]) -> list[dict[str, Any]]:
    count = len(config["rootfs"]["diff_ids"]) - len(steps)
    base = [{"created": CREATED, "created_by": "base"} for _ in range(count)]
    return [*base, *({"created": CREATED, "created_by": step} for step in steps)]


def _layer(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("mediaType", "digest", "size")}


def _sbom(layout: Path, said: Said, subject: Mapping[str, Any]) -> dict[str, Any]:
    """The bill of materials as an artefact that refers to the image (OCI 1.1)."""
    artefact = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "artifactType": SBOM_TYPE,
        "config": _blob(layout, b"{}", _EMPTY),
        "layers": [_blob(layout, said.sbom, SBOM_TYPE)],
        "subject": dict(subject),
        "annotations": {"org.opencontainers.image.title": "sbom.cdx.json"},
    }
    name = f"{said.tag}-sbom"
    return _blob(layout, _bytes(artefact), _MANIFEST) | {
        "artifactType": SBOM_TYPE,
        "annotations": {_REF_NAME: name},
    }


def _load(layout: Path, descriptor: Mapping[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(_place(layout, descriptor["digest"]).read_bytes())
    return value


def _blob(layout: Path, data: bytes, media_type: str) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    atomic_write(_place(layout, digest), data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _place(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _drop_others(layout: Path, kept: set[str], artefact: Mapping[str, Any]) -> None:
    inner = _load(layout, artefact)
    kept |= {artefact["digest"], inner["config"]["digest"], *(layer["digest"] for layer in inner["layers"])}
    for path in (layout / "blobs" / "sha256").iterdir():
        if f"sha256:{path.name}" not in kept:
            path.unlink()


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
