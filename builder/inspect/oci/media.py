"""The media types and names of OCI that are read and written here."""

from __future__ import annotations

from typing import Final

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
EMPTY: Final = "application/vnd.oci.empty.v1+json"
REF_NAME: Final = "org.opencontainers.image.ref.name"

INDEXES: Final = frozenset({INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"})
MANIFESTS: Final = frozenset({MANIFEST, "application/vnd.docker.distribution.manifest.v2+json"})
