"""`inspect_image`: a reference to the facts of the image behind it."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import zstandard

from builder.errors import InspectError
from builder.inspect.oci.facts import ContainerFacts, LayerFacts
from builder.inspect.oci.layers import Merged, lay
from builder.inspect.oci.layout import Found, Layout, damaged, find_image
from builder.model import LockedBase

OCI: Final = "oci:"
DOCKER: Final = "docker-archive:"
REMOTE: Final = "docker://"
_DAMAGE = (
    *(tarfile.TarError, zlib.error, zstandard.ZstdError),
    *(KeyError, EOFError, ArithmeticError, ValueError, RecursionError),
)


def is_reference(word: str) -> bool:
    """True for `oci:PATH[:TAG]`, `docker-archive:PATH`, and `docker://NAME@sha256:…`, which is to be pulled first."""
    return word.startswith((OCI, DOCKER, REMOTE))


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


def base_of(reference: str, platform: str = "linux/arm64") -> LockedBase:
    """The image's digest, its layers' diff_ids and its variables, by manifest and config alone: no layer is read.

    Raises InspectError as `inspect_image` does.
    """
    layout, tag = _layout(reference)
    with _damage_is_said(reference):
        found = find_image(layout, tag, platform)
        run = _table(found.config, "config", reference)
        return LockedBase(found.digest, tuple(_diff_ids(found, reference)), _texts(run, "Env", reference))


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
    run = _table(found.config, "config", reference)
    return ContainerFacts(
        reference=reference,
        digest=found.digest,
        config_digest=found.config_digest,
        architecture=str(found.config.get("architecture", "")),
        system=str(found.config.get("os", "")),
        user=str(run.get("User") or ""),
        env=_env(run, reference),
        labels={str(key): str(value) for key, value in _table(run, "Labels", reference).items()},
        annotations=found.annotations,
        entrypoint=_texts(run, "Entrypoint", reference),
        command=_texts(run, "Cmd", reference),
        healthcheck=_texts(_table(run, "Healthcheck", reference), "Test", reference),
        created=str(found.config.get("created", "")),
        layers=layers,
        root=merged.root(),
        history=tuple(step for step in _items(found.config, "history", reference) if isinstance(step, dict)),
        folder=str(run.get("WorkingDir") or ""),
        settings=run,
    )


def _env(run: Mapping[str, Any], where: str) -> dict[str, str]:
    pairs = [text.partition("=")[::2] for text in _texts(run, "Env", where)]
    found = dict(pairs)
    if len(found) != len(pairs):
        raise damaged("the config sets a variable twice, of which programs take the first or the last", where)
    return found


def _texts(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    return tuple(map(str, _items(table, key, where)))


def _items(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """A list, or nothing where there is none. Raises InspectError for anything else."""
    value = table.get(key)
    if value is not None and not isinstance(value, list):
        raise damaged(f"the config's {key} is no list", where)
    return value or []


def _table(table: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    """The same for an object."""
    value = table.get(key)
    if value is not None and not isinstance(value, dict):
        raise damaged(f"the config's {key} is no object", where)
    return value or {}
