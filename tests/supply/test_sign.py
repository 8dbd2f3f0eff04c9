"""What CI signs: `.ci/sign.py` gives Sigstore's program the predicate of each statement, word for word."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from builder.publish import statements
from builder.supply import SUFFIX
from tests.publish.wheels import verified
from tests.supply.records import ROOT, recipe
from tests.supply.wheels import wheel

STAND_IN = """\
import json, pathlib, sys
words = sys.argv[1:]
place = pathlib.Path(words[-1] + ".sigstore.json")
predicate = json.loads(pathlib.Path(words[words.index("--predicate") + 1]).read_text())
place.write_text(json.dumps({"words": words, "predicate": predicate}))
sys.exit(int(pathlib.Path(__file__).with_name("code").read_text()))
"""


def sign(tmp_path: Path, *folders: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the script with a stand-in for the program, which needs the network and an identity."""
    place = tmp_path / "stand_in" / "sigstore"
    place.mkdir(parents=True, exist_ok=True)
    (place / "__init__.py").touch()
    (place / "__main__.py").write_text(STAND_IN)
    (place / "code").write_text(str(code))
    argv: list[str | Path] = [sys.executable, ROOT / ".ci/sign.py", *folders]
    return subprocess.run(
        argv, env={"PYTHONPATH": str(place.parent)}, check=False, text=True, capture_output=True, cwd=tmp_path
    )


def test_the_predicate_of_each_statement_is_signed_for_its_wheel(tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = wheel(out)
    paper = path.with_name(path.name + SUFFIX)
    paper.write_bytes(statements([verified(path)], recipe(), ROOT)[path.name])
    assert sign(tmp_path, out).returncode == 0
    asked = json.loads((out / f"{path.name}.sigstore.json").read_bytes())
    assert asked["predicate"] == json.loads(paper.read_bytes())["predicate"]
    assert asked["words"][0] == "attest"
    assert asked["words"][-1] == str(path)
    assert asked["words"][asked["words"].index("--predicate-type") + 1] == "https://slsa.dev/provenance/v1"
    assert sign(tmp_path, out, code=3).returncode == 1


@pytest.mark.parametrize("folders", [0, 1])
def test_nothing_to_sign_is_an_error(tmp_path: Path, folders: int) -> None:
    done = sign(tmp_path, *[tmp_path][:folders])
    assert done.returncode == 2
    assert "error: no *.whl" in done.stderr


def test_the_program_knows_these_words() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "sigstore", "attest", "--help"], check=True, capture_output=True, text=True
    ).stdout
    for word in ("--predicate ", "--predicate-type", "--overwrite", "https://slsa.dev/provenance/v1"):
        assert word in said
