"""What an image must stand on, and where that is known from: the lock, a layout, or the base that a build pulled."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builder.context import Context
from builder.errors import RecipeError, RunError
from builder.image import verbs
from builder.image.verbs import Asked
from builder.inspect.oci import base_of
from builder.model import ImagePin, LockedBase, LockedFile
from builder.recipe import load, lock_text, read_base, read_lock
from builder.run import Completed
from builder.verify.image import Standing, pulled_base, standing
from tests.image.layouts import Node, Picture, layer_tar, sha, write_layout

ROOT = Path(__file__).parents[2]
DIGEST, LAYERS = "sha256:" + "a" * 64, ("sha256:" + "1" * 64, "sha256:" + "2" * 64)
ENV = ("PATH=/usr/bin", 'QUOTED="ö"')
PIN = ImagePin(f"nvidia/cuda:13@{DIGEST}", "locks/x.toml")
FILE = LockedFile("demo", "1.0", "demo-1.0-py3-none-any.whl", "b" * 64, 7, ("image-aarch64",))


def test_a_lock_names_the_layers_of_its_base(tmp_path: Path) -> None:
    lock = tmp_path / "lock.toml"
    lock.write_text(lock_text([FILE], LockedBase(DIGEST, LAYERS, ENV)))
    assert read_base(lock) == LockedBase(DIGEST, LAYERS, ENV)
    assert read_lock(lock) == (FILE,)
    lock.write_text(lock_text([FILE]))
    assert read_base(lock) is None
    lock.write_text(lock_text([FILE], LockedBase(DIGEST, ("sha256:1",))))
    with pytest.raises(RecipeError, match="layers"):
        read_base(lock)


def test_layers_are_the_locks_for_the_base_that_it_was_made_for(tmp_path: Path, context: Context) -> None:
    lock = tmp_path / "lock.toml"
    lock.write_text(lock_text([FILE], LockedBase(DIGEST, LAYERS, ENV)))
    assert standing(PIN, "", "arm64", lock, context.store) == Standing((DIGEST,), LAYERS, ENV)
    other = "sha256:" + "c" * 64
    assert standing(PIN, other, "arm64", lock, context.store) == Standing((other,), ())
    assert standing(None, "", "arm64", None, context.store) == Standing()


def test_layers_are_those_of_the_base_that_was_pulled(tmp_path: Path, context: Context) -> None:
    plain = layer_tar({"a": Node(b"x")})
    picture = Picture([plain], {"Env": list(ENV)})
    context.store.tree(pulled_base(DIGEST, "arm64"), lambda into: (write_layout(into, picture), None)[1])
    assert standing(PIN, "", "arm64", None, context.store) == Standing((DIGEST,), (sha(plain),), ENV)
    digest = write_layout(tmp_path / "given", picture)
    assert base_of(f"oci:{tmp_path / 'given'}") == LockedBase(digest, (sha(plain),), ENV)
    given = standing(PIN, f"oci:{tmp_path / 'given'}", "arm64", None, context.store)
    assert given == Standing((digest, DIGEST), (sha(plain),), ENV), "built on the layout, or on the index that it is of"


class Skopeo:
    """A Runner whose skopeo tells a config, or does not reach its registry."""

    def __init__(self, config: dict[str, Any] | None) -> None:
        self.config, self.told = config, list[tuple[str, ...]]()

    def __call__(self, argv: Sequence[str | Path], **_: object) -> Completed:
        words = tuple(map(str, argv))
        self.told.append(words)
        if self.config is None:
            raise RunError("skopeo ended with exit 1")
        return Completed(words, 0, "a warning\n" + json.dumps(self.config))


def test_locking_writes_the_layers_where_the_registry_is_reached(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "resolve", lambda *_: (FILE,))
    monkeypatch.setattr(verbs, "_paths", lambda *_: {})
    recipe = load("aeon7", ROOT)
    asked = Asked(recipe, PIN, {"lock": str(tmp_path / "lock.toml")}, ROOT, tmp_path)
    away = replace(context, run=Skopeo(None))
    document, text = verbs._lock(asked, away)
    assert document["base_layers"] is None
    assert "verify needs base=oci:PATH" in text
    skopeo = Skopeo({"rootfs": {"diff_ids": list(LAYERS)}, "config": {"Env": list(ENV)}})
    document, text = verbs._lock(asked, replace(context, run=skopeo))
    assert document["base_layers"] == list(LAYERS)
    assert read_base(asked.lock) == LockedBase(DIGEST, LAYERS, ENV)
    assert skopeo.told[0][-1] == f"docker://nvidia/cuda@{DIGEST}"
    assert verbs._lock(asked, away)[0]["base_layers"] == list(LAYERS), "what was locked for this digest stays"
