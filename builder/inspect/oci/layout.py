"""Blobs of an image by digest: an OCI layout folder, or the tar that `docker save` writes."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import IO, Any

from builder.errors import InspectError
from builder.inspect.oci.media import INDEXES, MANIFESTS, REF_NAME
from builder.inspect.oci.strict import CONFIG_FIELDS, MANIFEST_FIELDS, SAVED_FIELDS, read_json

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SMALL = 16 << 20


@dataclass(frozen=True, slots=True)
class Blob:
    """What a descriptor promises: digest, bytes (-1: not said) and media type."""

    digest: str
    size: int
    media_type: str = ""


class _Stored(io.FileIO):
    """The file of a docker-archive, of which no header is read that says to be larger than a small blob."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _SMALL:
            raise damaged(f"it has a header of {size} B", str(self.name))
        return super().read(size) or b""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the blobs are; `open` gives the stored bytes, unchecked."""

    place: Path
    archive: bool = False

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A stored file by its digest or, in a docker-archive, its member name. Raises InspectError."""
        if not self.archive:
            with (self.place / "blobs" / "sha256" / name.removeprefix("sha256:")).open("rb") as stream:
                yield stream
            return
        with _Stored(self.place) as stored, tarfile.open(fileobj=stored, mode="r:") as tar:
            found = [member for member in tar.getmembers() if normpath(member.name) == normpath(name)]
            if len(found) != 1:  # some take the first, some the last
                raise damaged(f"it holds {len(found)} of {name}", str(self.place))
            member = tar.extractfile(found[0])
            if member is None:
                raise damaged(f"{name} is no file", str(self.place))
            yield member

    def read(self, blob: Blob) -> bytes:
        """A small blob, held against its digest and size. Raises InspectError."""
        where = f"{self.place} {blob.digest}"
        if _DIGEST.fullmatch(blob.digest) is None:
            raise damaged(f"{blob.digest!r} is no sha256 digest", str(self.place))
        with self.open(blob.digest) as stream:
            data = stream.read(_SMALL + 1)
        if len(data) > _SMALL:
            raise damaged(f"it is over {_SMALL} B", where)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != blob.digest or blob.size not in {-1, len(data)}:
            raise damaged(f"a blob of {len(data)} B is not what its descriptor names", where)
        return data


@dataclass(frozen=True, slots=True)
class Found:
    """The image picked out of a layout: its manifest's digest, the manifest, and the config."""

    digest: str
    config_digest: str
    config: Mapping[str, Any]
    annotations: Mapping[str, str]
    layers: tuple[Blob, ...]


def damaged(what: str, where: str) -> InspectError:
    """The error for an image that is not whole."""
    return InspectError(what, where=where, expected="a whole image", remedy="pull or build the image again")


def find_image(layout: Layout, tag: str, platform: str) -> Found:
    """The image of that tag (empty: the only one) and platform (`linux/arm64`). Raises InspectError."""
    return _docker_image(layout) if layout.archive else _oci_image(layout, tag, platform)


def _oci_image(layout: Layout, tag: str, platform: str) -> Found:
    index = layout.place / "index.json"
    if not index.is_file():
        raise InspectError(
            "this is no OCI layout: it has no index.json",
            where=str(layout.place),
            expected="a folder with index.json and blobs/sha256",
            remedy="make one with skopeo copy docker://NAME@sha256:… oci:PATH",
        )
    with index.open("rb") as stream:
        data = stream.read(_SMALL + 1)
    if len(data) > _SMALL:
        raise damaged(f"it is over {_SMALL} B", str(index))
    descriptors = _descriptors(_json(data, str(index)), str(index))
    named = [d for d in descriptors if not tag or _strings(d.get("annotations")).get(REF_NAME) == tag]
    blob = _chosen(layout, named, tag, platform)
    manifest = _json(layout.read(blob), blob.digest)
    config = _blob(manifest.get("config"), blob.digest)
    return Found(
        digest=blob.digest,
        config_digest=config.digest,
        config=_json(layout.read(config), config.digest, CONFIG_FIELDS),
        annotations=_strings(manifest.get("annotations")),
        layers=tuple(_blob(entry, blob.digest) for entry in _list(manifest, "layers", blob.digest)),
    )


def _chosen(layout: Layout, named: list[Mapping[str, Any]], tag: str, platform: str, depth: int = 2) -> Blob:
    """Walk indexes down to the one manifest of the platform."""
    images = [d for d in named if str(d.get("mediaType")) in INDEXES | MANIFESTS and not _is_artifact(d)]
    if len(images) > 1:
        images = [d for d in images if _platform(d) == platform]
    alike = named if tag else [d for d in named if _platform(d) == platform]  # of which tools take any
    rivals = max(images, alike, key=len) if images else images
    if len(rivals) != 1:
        wanted = f"{tag or 'image'} for {platform}"
        said = ", ".join(_strings(d.get("annotations")).get(REF_NAME, str(d.get("digest"))) for d in named)
        raise InspectError(
            f"the layout has {len(rivals)} of {wanted}",
            where=str(layout.place),
            expected=f"exactly one; it has {said or 'nothing of that name'}",
            remedy="name one with oci:PATH:TAG",
        )
    blob = _blob(images[0], str(layout.place))
    if images[0]["mediaType"] in MANIFESTS:
        return blob
    if depth == 0:
        raise damaged("indexes within indexes within indexes", blob.digest)
    inner = _json(layout.read(blob), blob.digest)
    return _chosen(layout, _descriptors(inner, blob.digest), "", platform, depth - 1)


def _is_artifact(descriptor: Mapping[str, Any]) -> bool:
    return bool(descriptor.get("artifactType")) or _platform(descriptor) == "unknown/unknown"


def _platform(descriptor: Mapping[str, Any]) -> str:
    stated = _strings(descriptor.get("platform"))
    return f"{stated.get('os', '')}/{stated.get('architecture', '')}"


def _docker_image(layout: Layout) -> Found:
    """`docker save`: manifest.json names the config and the layers; the config's diff_ids prove the layers."""
    place = str(layout.place)
    with layout.open("manifest.json") as stream:
        listed = read_json(stream.read(_SMALL), SAVED_FIELDS)
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        raise damaged("manifest.json does not list exactly one image", place)
    named = str(listed[0].get("Config"))
    with layout.open(named) as stream:
        data = stream.read(_SMALL)
    layers = tuple(Blob(str(name), -1) for name in _list(listed[0], "Layers", place))
    config = _json(data, named, CONFIG_FIELDS)
    return Found("", f"sha256:{hashlib.sha256(data).hexdigest()}", config, {}, layers)


def _json(data: bytes, where: str, fields: Iterable[str] = MANIFEST_FIELDS) -> Mapping[str, Any]:
    try:
        value = read_json(data, fields)
    except (ValueError, RecursionError) as error:
        raise damaged(f"it is no JSON that all read alike ({error})", where) from error
    if not isinstance(value, dict):
        raise damaged("it is no JSON object", where)
    return value


def _list(value: Mapping[str, Any], key: str, where: str) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise damaged(f"it has no list of {key}", where)
    return found


def _descriptors(index: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    found = _list(index, "manifests", where)
    if not all(isinstance(each, dict) for each in found):
        raise damaged("a descriptor is no object", where)
    return found


def _blob(value: object, where: str) -> Blob:
    if not isinstance(value, dict) or _DIGEST.fullmatch(str(value.get("digest"))) is None:
        raise damaged("a descriptor has no sha256 digest", where)
    size = value.get("size", -1)
    return Blob(str(value["digest"]), size if isinstance(size, int) else -1, str(value.get("mediaType", "")))


def _strings(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}
