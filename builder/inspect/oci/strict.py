"""JSON of an image that every reader takes alike.

Runtimes are written in Go, whose decoder matches keys without regard to case and lets the last one win; Python's
takes the exact key. A document on which the two differ is judged as one image and run as another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

MANIFEST_FIELDS: Final = frozenset(
    [
        "schemaVersion",
        "mediaType",
        "artifactType",
        "config",
        "layers",
        "manifests",
        "subject",
        "annotations",
        "digest",
        "size",
        "urls",
        "data",
        "platform",
        "architecture",
        "os",
        "os.version",
        "os.features",
        "variant",
        "features",
    ]
)
"""Of an index and of a manifest, and of what is in them."""

CONFIG_FIELDS: Final = frozenset(
    [
        "created",
        "author",
        "architecture",
        "os",
        "os.version",
        "os.features",
        "variant",
        "config",
        "rootfs",
        "history",
        "type",
        "diff_ids",
        "created_by",
        "comment",
        "empty_layer",
        "container",
        "container_config",
        "docker_version",
        "User",
        "ExposedPorts",
        "Env",
        "Entrypoint",
        "Cmd",
        "Volumes",
        "WorkingDir",
        "Labels",
        "StopSignal",
        "StopTimeout",
        "Memory",
        "MemorySwap",
        "CpuShares",
        "Healthcheck",
        "Test",
        "Interval",
        "Timeout",
        "StartPeriod",
        "StartInterval",
        "Retries",
        "OnBuild",
        "Shell",
        "ArgsEscaped",
        "Hostname",
        "Domainname",
    ]
)
"""Of a config, of what is run by it, and of its history."""

SAVED_FIELDS: Final = frozenset({"Config", "RepoTags", "Layers", "Parent", "LayerSources"})
"""Of the manifest.json that `docker save` writes."""

_FREE: Final = frozenset({"Labels", "annotations"})
"""Tables whose keys are anyone's: maps to Go too, which keeps their case."""


def read_json(data: bytes, fields: Iterable[str]) -> Any:  # noqa: ANN401  a document of any shape
    """The document. Raises ValueError for what is no JSON, or may be read in two ways where `fields` are known."""
    value = json.loads(data, object_pairs_hook=_table)
    _look({field.casefold(): field for field in fields}, value)
    return value


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a key that comes twice: only here are both still seen."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return table


def _look(known: dict[str, str], value: object) -> None:
    if isinstance(value, dict):
        _refuse_alike(known, value)
        for key, inner in value.items():
            if key not in _FREE:
                _look(known, inner)
    elif isinstance(value, list):
        for inner in value:
            _look(known, inner)


def _refuse_alike(known: dict[str, str], table: dict[str, Any]) -> None:
    """Keys that are one by case, and a known field that is spelled otherwise."""
    folded = {key.casefold() for key in table}
    if len(folded) != len(table):
        raise ValueError("a key comes twice in one object, but for its case")
    for key in table:
        if known.get(key.casefold(), key) != key:
            raise ValueError(f"{key!r} is read as {known[key.casefold()]!r} by some, and passed over by others")
