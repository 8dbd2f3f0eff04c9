"""`inspect_image`: a reference to the facts of the image behind it."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import zstandard

from builder.errors import InspectError
from builder.inspect.oci.facts import ContainerFacts, LayerFacts
from builder.inspect.oci.layers import Merged, lay
from builder.inspect.oci.layout import Found, Layout, damaged, find_image

OCI: Final = "oci:"
DOCKER: Final = "docker-archive:"
_DAMAGE = (tarfile.TarError, zstandard.ZstdError, KeyError, EOFError, ArithmeticError, ValueError)


def is_reference(word: str) -> bool:
    """True for `oci:PATH[:TAG]` and `docker-archive:PATH`."""
    return word.startswith((OCI, DOCKER))


def inspect_image(reference: str, platform: str = "linux/arm64") -> ContainerFacts:
    """Read the image, every blob held against its digest, and merge its layers.

    `platform` picks from an index of several. Raises InspectError when it is not there, damaged or unsafe.
    """
    layout, tag = _layout(reference)
    with _damage_is_said(reference):
        found = find_image(layout, tag, platform)
        merged = Merged()
        layers = tuple(
            lay(merged, layout, blob, diff_id, number)
            for number, (blob, diff_id) in enumerate(zip(found.layers, _diff_ids(found, reference), strict=True))
        )
    return _facts(reference, found, layers, merged)


def layers_of(reference: str, platform: str = "linux/arm64") -> tuple[str, tuple[str, ...]]:
    """The image's digest and its layers' diff_ids, by manifest and config alone: the layers are not read.

    Raises InspectError as `inspect_image` does.
    """
    layout, tag = _layout(reference)
    with _damage_is_said(reference):
        found = find_image(layout, tag, platform)
        return found.digest, tuple(_diff_ids(found, reference))


@contextmanager
def _damage_is_said(reference: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InspectError(
            f"cannot read it: {error.strerror or error}", where=reference, expected="a whole image"
        ) from error
    except _DAMAGE as error:
        raise damaged(f"it cannot be read ({type(error).__name__}: {error})", reference) from error


def _layout(reference: str) -> tuple[Layout, str]:
    if reference.startswith(DOCKER):
        return Layout(Path(reference.removeprefix(DOCKER)), archive=True), ""
    place, tag = reference.removeprefix(OCI), ""
    if not Path(place).exists() and ":" in place:
        place, _, tag = place.rpartition(":")
    if not Path(place).is_dir():
        raise InspectError(
            f"there is no {place}", where=reference, expected="oci:PATH of a folder, or docker-archive:FILE"
        )
    return Layout(Path(place)), tag


def _diff_ids(found: Found, where: str) -> list[str]:
    rootfs = found.config.get("rootfs")
    ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(ids, list) or len(ids) != len(found.layers):
        raise damaged(f"the config does not name a diff_id for each of {len(found.layers)} layers", where)
    return [str(each) for each in ids]


def _facts(reference: str, found: Found, layers: tuple[LayerFacts, ...], merged: Merged) -> ContainerFacts:
    run = found.config.get("config")
    run = run if isinstance(run, dict) else {}
    health = run.get("Healthcheck")
    return ContainerFacts(
        reference=reference,
        digest=found.digest,
        config_digest=found.config_digest,
        architecture=str(found.config.get("architecture", "")),
        system=str(found.config.get("os", "")),
        user=str(run.get("User") or ""),
        env=dict(text.partition("=")[::2] for text in _texts(run, "Env")),
        labels={str(key): str(value) for key, value in (run.get("Labels") or {}).items()},
        annotations=found.annotations,
        entrypoint=_texts(run, "Entrypoint"),
        command=_texts(run, "Cmd"),
        healthcheck=_texts(health, "Test") if isinstance(health, dict) else (),
        created=str(found.config.get("created", "")),
        layers=layers,
        root=merged.root(),
    )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(str(item) for item in table.get(key) or ())
