"""What is said of a command line that asks for something that does not exist."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.__main__ import VERBS
from builder.errors import StoreError
from tests.cli.conftest import ROOT, Cli, Ended

Call = Callable[..., Ended]

WRONG = [
    (("biuld", "recipe=smoke"), "unknown verb 'biuld', did you mean build?"),
    (("frobnicate",), "unknown verb 'frobnicate'"),
    (("plan", "recip=smoke"), "unknown option recip=, did you mean recipe=?"),
    (("build", "recipe=smoke", "toolchian=index"), "unknown option toolchian=, did you mean toolchain=?"),
    (("verify", "devcie=12.1", "x.whl"), "unknown option devcie=, did you mean device=?"),
    (("lock", "recipe=smoke", "store=x"), "unknown option store="),
    (("plan", "recipe=smoke", "--jsno"), "unknown flag --jsno, did you mean --json?"),
    (("plan", "-v"), "unknown flag -v"),
    (("plan", "--recipe=smoke"), "unknown flag --recipe=smoke"),
    (("plan", "recipe=smoke", "recipe=aeon7"), "recipe= is given twice"),
    (("plan",), "which recipe?"),
    (("build",), "which recipe?"),
    (("lock",), "which recipe?"),
    (("patches", "status"), "which recipe?"),
    (("plan", "recipe="), "which recipe?"),
    (("plan", "smoke"), "unexpected word 'smoke'"),
    (("plan", "recipe=smok"), "there is no recipe 'smok', did you mean 'smoke'?"),
    (("plan", "recipe=/nowhere/own.toml"), "there is no recipe '/nowhere/own.toml'"),
    (("plan", "recipe=smoke", "jobs=0"), "jobs=0 is no number of jobs"),
    (("plan", f"recipe={'a' * 300}"), "there is no recipe 'aaa"),
    (("plan", "recipe=smoke", "jobs=²"), "jobs=² is no number of jobs"),
    (("plan", "recipe=smoke", "jobs=99999999999999999999"), "jobs=99999999999999999999 is no number of jobs"),
    (("plan", "recipe=smoke", "jobs=many"), "jobs=many is no number of jobs"),
    (("build", "recipe=smoke", "source=svn"), "source=svn is unknown"),
    (("inspect",), "inspect what?"),
    (("inspect", "level=deep", "x"), "level=deep is unknown"),
    (("verify", "x.whl"), "say what to hold it against"),
    (("publish", "add"), "publish add with no words"),
    (("publish", "add", "x"), "which recipe?"),
    (("publish", "add", "no-such-folder", "recipe=smoke"), "there are no wheels in no-such-folder"),
    (("publish", "add", "x", "recipe=smoke", "trust=y"), "trust= without identity="),
    (("patches", "sttus", "recipe=smoke"), "patches has no verb 'sttus'"),
]


@pytest.mark.parametrize(("words", "what"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_bad_usage_is_exit_2_with_what_is_expected(here: Call, words: tuple[str, ...], what: str) -> None:
    ended = here(*words)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith(f"error: {what}")
    assert "\n  expected: " in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("words", [words for words, _ in WRONG[::4]], ids=" ".join)
def test_with_json_the_same_is_one_document(here: Call, words: tuple[str, ...]) -> None:
    ended = here(*words, "--json")
    assert ended.code == 2
    error = ended.document["error"]
    assert error["kind"] == "UsageError"
    assert set(error) == {"kind", "what", "where", "expected", "next", "because"}
    assert ended.err.startswith(f"error: {error['what']}")


def test_as_a_process(cli: Cli) -> None:
    ended = cli("biuld", "recipe=smoke")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[0] == "error: unknown verb 'biuld', did you mean build?"


@pytest.mark.parametrize("words", [(), ("help",), ("-h",), ("--help",)], ids=str)
def test_help_names_every_verb_with_a_line(here: Call, words: tuple[str, ...]) -> None:
    ended = here(*words)
    assert (ended.code, ended.out) == (0, "")
    lines = [line.split(maxsplit=1) for line in ended.err.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines] == list(VERBS)
    assert all(len(line) == 2 for line in lines)
    assert here(*words, "--json").document["verbs"] == list(VERBS)


def test_a_path_with_an_equals_sign_is_a_word(here: Call, tmp_path: Path) -> None:
    path = tmp_path / "a=b.so"
    path.write_bytes((ROOT / "tests" / "data" / "samples" / "nothing.so").read_bytes())
    ended = here("inspect", str(path), "--json")
    assert ended.code == 0
    assert [file["path"] for file in ended.document["files"]] == [str(path)]


BROKEN = """
revison = 1

[target]
platform = "linux-riscv"
cuda_arch = ["sm_121a"]
python = 3.12

[[package]]
name = "vllm"
version = "0.20.0"
commit = "b8160878"
"""


def test_a_broken_recipe_tells_every_problem_at_once(here: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(BROKEN)
    ended = here("plan", f"recipe={path}")
    assert (ended.code, ended.out) == (3, "")
    for said in ("revison", "revision", "platform", "sm_121a", "python", "commit", "toolchain", str(path)):
        assert said in ended.err, said
    assert here("plan", f"recipe={path}", "--json").document["error"]["kind"] == "RecipeError"


def test_a_recipe_that_is_no_toml_names_the_line(here: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[target\n")
    ended = here("plan", f"recipe={path}")
    assert ended.code == 3
    assert "line 1" in ended.err


def test_a_file_that_is_not_there_or_no_binary_has_its_own_code(here: Call, tmp_path: Path) -> None:
    assert here("inspect", str(tmp_path / "absent.whl")).code == 12
    (tmp_path / "text.whl").write_text("no wheel")
    ended = here("inspect", str(tmp_path / "text.whl"), "--json")
    assert ended.code == 12
    assert ended.document["error"]["kind"] == "InspectError"


def test_a_negative_verdict_is_exit_1_and_still_one_document(here: Call) -> None:
    samples = ROOT / "tests" / "data" / "samples"
    ended = here("verify", str(samples / "launch_sm_75.so"), "device=12.1", "--json")
    assert ended.code == 1
    assert ended.document["good"] is False
    assert ended.document["files"]
    assert here("verify", str(samples / "launch_sm_75.so"), "device=12.1").out == ""


@pytest.mark.parametrize("option", ["store", "out"])
def test_a_file_where_a_folder_must_be_is_said_before_anything_is_built(
    here: Call, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").touch()
    places = {"store": tmp_path / "store", "out": tmp_path / "out"} | {option: tmp_path / "file"}
    answer = here("build", "recipe=smoke", *(f"{name}={place}" for name, place in places.items()))
    assert answer.code == StoreError.exit_code
    assert str(tmp_path / "file") in answer.err
    assert "==> source" not in answer.err


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_each_verb_tells_what_it_takes(here: Call, verb: str, flag: str) -> None:
    ended = here(verb, flag)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith(f"python -m builder {verb}: ")
    assert "\n  takes: " in ended.err


def test_next_steps_have_the_name_that_the_program_was_called_by(here: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "next: python -m builder help" in here("biuld").err
    monkeypatch.setenv("SPARK_WHEELS_CALLED", "./dev")
    ended = here("biuld")
    assert "next: ./dev help" in ended.err
    assert "python -m builder" not in ended.err + here("help").err + here("plan", "--help").err


def test_a_python_without_dependencies_is_told_what_makes_one() -> None:
    words = [sys.executable, "-S", "-m", "builder", "plan", "recipe=smoke"]  # -S: without what is installed
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: this Python lacks what the builder needs: ")
    assert "next: call ./dev VERB" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_login_in_an_address_is_not_told(here: Call, flags: tuple[str, ...]) -> None:
    ended = here("plan", "recipe=https://user:SECRET@host/x", *flags)
    assert ended.code == 2
    assert "***@host" in ended.err
    assert "SECRET" not in ended.err + ended.out
