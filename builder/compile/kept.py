"""Finished wheels in the store, by a key of all that they are made of."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from builder.model import Wheel
from builder.store import Store, sha256_of


def kept_wheel(store: Store, key: str) -> Wheel | None:
    """The wheel that was made under that key, if its bytes are still here, and still those.

    A machine that lost its power may have left a file shorter than it was: it counts as absent, and is made again.
    """
    record = store.record("wheel", key)
    wheel = None if record is None else _read(record, store)
    if wheel is None or not wheel.path.is_file() or store.blob(wheel.sha256) is None:
        return None
    whole = wheel.path.stat().st_size == wheel.size and sha256_of(wheel.path) == wheel.sha256
    return wheel if whole else None


def keep_wheel(store: Store, key: str, wheel: Wheel) -> Wheel:
    """Keep the wheel under its digest, and under its own name in a folder of that digest."""
    blob = store.put_file(wheel.path, wheel.sha256)
    place = _place(store, wheel.sha256, wheel.path.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    _link(place, blob)
    kept = replace(wheel, path=place)
    store.keep_record("wheel", key, asdict(kept) | {"path": place.name})
    return kept


def _link(place: Path, blob: Path) -> None:
    """Make `place` the blob by one rename: another build may make or read the same wheel at the same moment."""
    new = place.with_name(f".{os.getpid()}.{threading.get_ident()}")
    new.unlink(missing_ok=True)
    while not new.exists():
        try:
            new.hardlink_to(blob)
        except FileNotFoundError:  # another build put the same bytes there: what is renamed over is gone
            if not blob.exists():
                raise
    new.replace(place)
    new.unlink(missing_ok=True)  # a rename onto another link of the same file does nothing


def _place(store: Store, sha256: str, name: str) -> Path:
    return store.root / "wheels" / sha256 / name


def _read(record: Mapping[str, object], store: Store) -> Wheel | None:
    text = {name: str(record.get(name, "")) for name in ("path", "sha256", "name", "version", "tag")}
    size = record.get("size")
    if not isinstance(size, int) or not all(text.values()):
        return None
    place = _place(store, text["sha256"], text["path"])
    return Wheel(place, text["sha256"], size, text["name"], text["version"], text["tag"])
