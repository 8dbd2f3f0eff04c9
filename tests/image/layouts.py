"""Writes small real OCI layouts and docker-archives: what the tests damage, and the bases that they build on."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
REF = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class Node:
    """One tar member: a file by default; with `target` a link, with `kind` anything tarfile knows."""

    data: bytes = b""
    mode: int = 0o644
    target: str = ""
    kind: bytes = tarfile.REGTYPE
    owner: int = 0


FOLDER = Node(mode=0o755, kind=tarfile.DIRTYPE)


def link(target: str) -> Node:
    return Node(target=target, kind=tarfile.SYMTYPE, mode=0o777)


def layer_tar(nodes: Mapping[str, Node] | Iterable[tuple[str, Node]]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, node in nodes.items() if isinstance(nodes, Mapping) else nodes:
            info = tarfile.TarInfo(name)
            info.mode, info.type, info.linkname, info.uid, info.gid = (
                node.mode,
                node.kind,
                node.target,
                *[node.owner] * 2,
            )
            info.size = len(node.data)
            tar.addfile(info, io.BytesIO(node.data))
    return stream.getvalue()


def packed(plain: bytes, how: str) -> bytes:
    if how == "gzip":
        return gzip.compress(plain, 6, mtime=0)
    return zstandard.compress(plain) if how == "zstd" else plain


@dataclass
class Picture:
    """An image as a test wants it."""

    layers: Sequence[bytes]
    config: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    architecture: str = "arm64"
    compression: str = "gzip"
    tag: str = ""


def config_of(picture: Picture) -> bytes:
    return dump(
        {
            "architecture": picture.architecture,
            "os": "linux",
            "config": picture.config,
            "rootfs": {"type": "layers", "diff_ids": [sha(plain) for plain in picture.layers]},
            "history": [{"created": "1980-01-01T00:00:00Z", "created_by": "test"} for _ in picture.layers],
        }
    )


def write_layout(folder: Path, *pictures: Picture) -> str:
    """Write the layout; the digest of the first image."""
    (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    listed = [_image(folder, picture) for picture in pictures]
    (folder / "index.json").write_bytes(dump({"schemaVersion": 2, "manifests": listed}))
    return str(listed[0]["digest"])


def _image(folder: Path, picture: Picture) -> dict[str, Any]:
    kind = {"gzip": f"{LAYER}+gzip", "zstd": f"{LAYER}+zstd"}.get(picture.compression, LAYER)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": put(folder, config_of(picture), CONFIG),
        "layers": [put(folder, packed(plain, picture.compression), kind) for plain in picture.layers],
        "annotations": picture.annotations,
    }
    platform = {"os": "linux", "architecture": picture.architecture}
    named = {"annotations": {REF: picture.tag}} if picture.tag else {}
    return {**put(folder, dump(manifest), MANIFEST), "platform": platform, **named}


def write_docker_archive(path: Path, picture: Picture) -> None:
    config = config_of(picture)
    names = [f"{number}/layer.tar" for number, _ in enumerate(picture.layers)]
    listed = [{"Config": "config.json", "RepoTags": ["x:y"], "Layers": names}]
    members = {"config.json": config, **dict(zip(names, picture.layers, strict=True)), "manifest.json": dump(listed)}
    path.write_bytes(layer_tar({name: Node(data) for name, data in members.items()}))


def put(folder: Path, data: bytes, media_type: str) -> dict[str, Any]:
    digest = sha(data)
    (folder / "blobs" / "sha256" / digest.removeprefix("sha256:")).write_bytes(data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def sha(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def dump(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
