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

from builder.inspect.oci.media import CONFIG, EMPTY, INDEX, MANIFEST, REF_NAME
from builder.store import atomic_write
from builder.verify.image.places import CREATED

SBOM_TYPE: Final = "application/vnd.cyclonedx+json"


@dataclass(frozen=True, slots=True)
class Said:
    """What the image says of itself. `annotations` stand on the manifest, `labels` in the config.

    `history` is that of the base, and `steps` has a line for each layer that lies on it.
    """

    tag: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    healthcheck: Mapping[str, object]
    steps: Sequence[str]
    history: Sequence[Mapping[str, object]]


def rewrite(layout: Path, said: Said) -> str:
    """Write config, manifest and index over what the tool left; the image's digest."""
    descriptor = _only(json.loads((layout / "index.json").read_bytes()), layout)
    manifest = _load(layout, descriptor)
    config = _config(_load(layout, manifest["config"]), said)
    layers = [_layer(entry) for entry in manifest["layers"]]
    stored = _blob(layout, _bytes(config), CONFIG)
    image = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": stored,
        "layers": layers,
        "annotations": dict(said.annotations),
    }
    top = _blob(layout, _bytes(image), MANIFEST)
    platform = {"os": config["os"], "architecture": config["architecture"]}
    _index(layout, [{**top, "platform": platform, "annotations": {REF_NAME: said.tag}}])
    _drop_others(layout, {top["digest"], stored["digest"], *(layer["digest"] for layer in layers)})
    return str(top["digest"])


def attach(layout: Path, bill: bytes) -> None:
    """Put the bill of materials beside the image, as an artefact that refers to it (OCI 1.1)."""
    (image,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    artefact = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": SBOM_TYPE,
        "config": _blob(layout, b"{}", EMPTY),
        "layers": [_blob(layout, bill, SBOM_TYPE)],
        "subject": {key: image[key] for key in ("mediaType", "digest", "size")},
        "annotations": {"org.opencontainers.image.title": "sbom.cdx.json"},
    }
    named = {"artifactType": SBOM_TYPE, "annotations": {REF_NAME: f"{image['annotations'][REF_NAME]}-sbom"}}
    _index(layout, [image, _blob(layout, _bytes(artefact), MANIFEST) | named])


def _index(layout: Path, listed: Sequence[Mapping[str, Any]]) -> None:
    atomic_write(layout / "index.json", _bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}))
    atomic_write(layout / "oci-layout", _bytes({"imageLayoutVersion": "1.0.0"}))


def _only(index: Mapping[str, Any], layout: Path) -> Mapping[str, Any]:
    """The image that the tool wrote; buildx may wrap it in one more index."""
    (descriptor,) = index["manifests"]
    return _only(_load(layout, descriptor), layout) if descriptor["mediaType"] == INDEX else descriptor


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
        "history": _history(len(config["rootfs"]["diff_ids"]), said),
    }


def _history(layers: int, said: Said) -> list[dict[str, Any]]:
    """The base's own words, where it has some for each of its layers, and a line for each that lies on them."""
    base = [dict(step) for step in said.history]
    if sum(not step.get("empty_layer") for step in base) != layers - len(said.steps):
        base = [{"created": CREATED, "created_by": "base"} for _ in range(layers - len(said.steps))]
    return [*base, *({"created": CREATED, "created_by": step} for step in said.steps)]


def _layer(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in ("mediaType", "digest", "size")}


def _load(layout: Path, descriptor: Mapping[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(_place(layout, descriptor["digest"]).read_bytes())
    return value


def _blob(layout: Path, data: bytes, media_type: str) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    atomic_write(_place(layout, digest), data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _place(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _drop_others(layout: Path, kept: set[str]) -> None:
    for path in (layout / "blobs" / "sha256").iterdir():
        if f"sha256:{path.name}" not in kept:
            path.unlink()


def _bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
