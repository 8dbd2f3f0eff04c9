"""The place of an image holds a whole one at any moment, and what is pushed is what was judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from builder.context import Context
from builder.errors import NegativeVerdict, PublishError
from builder.image import placing
from builder.image.placing import place
from builder.image.push import push_image
from builder.image.verbs import run_verb
from builder.run import Completed
from tests.image.conftest import Inspect
from tests.publish.wheels import AARCH64, build_wheel

ROOT = Path(__file__).parents[2]


def folder(path: Path, text: str) -> Path:
    path.mkdir(parents=True)
    (path / "index.json").write_text(text)
    return path


@pytest.mark.parametrize("exchanges", [True, False])
def test_the_new_image_takes_the_place_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchanges: bool
) -> None:
    if not exchanges:
        monkeypatch.setattr(placing, "_exchanged", lambda *_: False)
    out = tmp_path / "out" / "image"
    for text in ("first", "second"):
        place(folder(tmp_path / text, text), out)
        assert (out / "index.json").read_text() == text
    assert [path.name for path in out.parent.iterdir()] == ["image"]


def test_two_folders_change_places_in_one_step(tmp_path: Path) -> None:
    one, other = folder(tmp_path / "1", "one"), folder(tmp_path / "2", "other")
    assert placing._exchanged(one, other)
    assert [(path / "index.json").read_text() for path in (one, other)] == ["other", "one"]
    with pytest.raises(FileNotFoundError):
        placing._exchanged(one, tmp_path / "nothing")


def test_an_image_that_a_killed_run_had_put_aside_comes_back(tmp_path: Path) -> None:
    folder(tmp_path / ".image.old", "good")
    folder(tmp_path / ".image.new", "half")
    with pytest.raises(FileNotFoundError):
        place(tmp_path / "gone", tmp_path / "image")
    assert (tmp_path / "image" / "index.json").read_text() == "good"


class Door:
    """A Runner that keeps what it was told; its skopeo says that it wrote `digest`."""

    def __init__(self, digest: str) -> None:
        self.digest, self.told = digest, list[tuple[str, ...]]()

    def __call__(self, argv: Sequence[str | Path], **_: object) -> Completed:
        words = tuple(map(str, argv))
        self.told.append(words)
        if "--digestfile" in words:
            Path(words[words.index("--digestfile") + 1]).write_text(self.digest)
        return Completed(words, 0, "")


def test_a_push_that_meets_another_image_says_so(image: Inspect, context: Context) -> None:
    facts = image()
    good = Door(facts.digest)
    assert push_image(facts, "127.0.0.1:5/x:v1", replace(context, run=good)) == f"127.0.0.1:5/x@{facts.digest}"
    assert all("--dest-tls-verify=false" in words for words in good.told)
    other = Door("sha256:" + "0" * 64)
    with pytest.raises(PublishError, match="not the image that was judged"):
        push_image(facts, "registry.example.org/x:v1", replace(context, run=other))
    assert len(other.told) == 1, "nothing is attached to an image that was not judged"


def test_wheels_that_nobody_verified_are_not_pushed(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are not enough: these are called as the recipe's wheels, and hold none of what it promises."""
    monkeypatch.setattr("builder.verify.check.pinned", lambda *_: ())  # no torch is needed to refuse them
    door = Door("")
    for name, version in (("flashinfer-python", "0.6.8"), ("flashinfer-jit-cache", "0.6.8"), ("vllm", "0.20.0")):
        build_wheel(tmp_path / "w", name, version, AARCH64, payload=b"other", requires_python=">=3.9")
    options = {"recipe": "aeon7", "push": "127.0.0.1:5/x:v1", "wheels": str(tmp_path / "w")}
    with pytest.raises(NegativeVerdict, match="is not what was asked for"):
        run_verb(["push"], options, replace(context, run=door), ROOT, tmp_path)
    assert not any("skopeo" in words for words in door.told)
