"""stdout holds one document or nothing; readers may leave; Ctrl-C and faults end in one plain message."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builder import commands, resume
from builder.__main__ import UNHEARD
from builder.commands import Outcome, Request
from builder.errors import FetchError, InternalError, RunError
from builder.store import Store, sha256_of
from tests.cli.conftest import ROOT, Cli, Ended

Call = Callable[..., Ended]
SAMPLE = str(ROOT / "tests" / "data" / "samples" / "launch_plain.so")


# -- one document -----------------------------------------------------------------------------


def test_text_goes_to_stderr_and_documents_to_stdout(cli: Cli) -> None:
    said = cli("inspect", SAMPLE)
    assert (said.code, said.out) == (0, "")
    assert "launch_plain.so" in said.err
    told = cli("inspect", SAMPLE, "--json")
    assert (told.code, told.err) == (0, "")
    assert told.document["files"][0]["sha256"] == sha256_of(Path(SAMPLE))


def test_json_is_quiet_wherever_it_stands(here: Call) -> None:
    first = here("--json", "plan", "recipe=smoke")
    assert first.err == ""
    assert first.document == here("plan", "--json", "recipe=smoke").document


def test_causes_are_said_from_the_outside_in(here: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_request: Request) -> Outcome:
        try:
            try:
                raise OSError(113, "no route")
            except OSError as error:
                raise RunError("git ended with exit 128") from error
        except RunError as error:
            raise FetchError("cannot fetch vllm", where="source", remedy="check the network") from error

    monkeypatch.setattr(commands, "plan", failing)
    ended = here("plan", "--json")
    assert ended.code == FetchError.exit_code
    assert ended.document["error"]["because"] == ["git ended with exit 128", "OSError: [Errno 113] no route"]
    assert ended.err.splitlines() == [
        "error: cannot fetch vllm",
        "  where: source",
        "  next: check the network",
        "  because: git ended with exit 128",
        "  because: OSError: [Errno 113] no route",
    ]


# -- plan -------------------------------------------------------------------------------------


def _snapshot(*folders: Path) -> list[tuple[str, int, int]]:
    places = [path for folder in folders for path in (folder, *folder.rglob("*")) if "__pycache__" not in path.parts]
    return sorted((str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in places if path.exists())


def test_plan_says_it_all_and_changes_nothing(cli: Cli, tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    (store / "blobs").mkdir(parents=True)
    out.mkdir()
    watched = (store, out, tmp_path / "tmp", ROOT / "recipes", ROOT / "patches")
    before = _snapshot(*watched)
    ended = cli("plan", "recipe=smoke", f"store={store}", f"out={out}")
    assert ended.code == 0
    assert _snapshot(*watched) == before
    assert not (tmp_path / "canonical").exists()
    for said in ("smoke for linux-aarch64", "source: vllm-0.20.0.tar.gz (to fetch)", "patch vllm/0001", "units, "):
        assert said in ended.err, said
    for said in ("toolchain: CUDA", "to fetch, ", "estimate: ", "slowest:"):
        assert said in ended.err, said


def test_the_plan_as_a_document(here: Call, tmp_path: Path) -> None:
    document = here("plan", "recipe=smoke", f"store={tmp_path}", "jobs=3", "--json").document
    assert document["recipe"] == "smoke"
    assert document["estimate"]["jobs"] == 3
    assert document["toolchain"]["missing"] == document["toolchain"]["files"] > 0
    packages = {package["name"]: package for package in document["packages"]}
    assert packages["vllm"]["patches"]
    assert packages["flashinfer-jit-cache"]["units"] >= len(packages["flashinfer-jit-cache"]["components"]) == 2
    seconds = sum(package["cpu_seconds"] for package in document["packages"])
    assert document["estimate"]["cpu_seconds"] == pytest.approx(seconds)
    assert list(tmp_path.iterdir()) == []


def test_the_plan_knows_that_all_stands_already(here: Call, tmp_path: Path) -> None:
    out, store = tmp_path / "out", Store(tmp_path / "store")
    page = b'{"files": [{"filename": "some.whl", "hashes": {"sha256": "1"}}]}'
    for place in (out / "some.whl", out / "index/simple/index.html", out / "index/simple/some/index.json"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(page if place.suffix == ".json" else b"x")
    wheel = {"name": "some", "file": "some.whl", "size": 1, "sha256": "1"}
    made = {"folder": str(out), "index": str(out / "index"), "wheels": [wheel]}
    store.keep_record("build", resume.fingerprint(ROOT, {"recipe": "smoke", "out": str(out)}), made)
    words = ("plan", "recipe=smoke", f"store={store.root}", f"out={out}", "--json")
    assert here(*words).document["nothing_to_do"] is True
    (out / "some.whl").unlink()
    assert here(*words).document["nothing_to_do"] is False


# -- readers that leave -----------------------------------------------------------------------


@contextmanager
def _gone_reader() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def test_a_reader_of_the_document_may_leave(cli: Cli) -> None:
    with _gone_reader() as pipe, cli.start("plan", "recipe=smoke", "--json", stdout=pipe) as process:
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")


def test_a_reader_of_an_errors_document_may_leave(cli: Cli) -> None:
    with _gone_reader() as pipe, cli.start("plan", "--json", stdout=pipe) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.startswith("error: which recipe?")


def test_nobody_listening_is_not_success(cli: Cli) -> None:
    with _gone_reader() as pipe, cli.start("plan", "recipe=smoke", stderr=pipe) as process:
        out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (UNHEARD, "")


# -- Ctrl-C -----------------------------------------------------------------------------------


@pytest.fixture
def silent_index() -> Iterator[tuple[str, threading.Event]]:
    """An index that takes connections and never answers; the event says that one came."""
    asked = threading.Event()
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            try:
                while True:
                    held.append(server.accept()[0])
                    asked.set()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple/", asked
        server.shutdown(socket.SHUT_RDWR)
    for each in held:
        each.close()


def _stopped(cli: Cli, index: tuple[str, threading.Event], number: int, *words: str) -> tuple[Ended, float]:
    url, asked = index
    with Cli({**cli.environment, "PIP_INDEX_URL": url}).start("build", "recipe=smoke", *words) as process:
        try:
            assert asked.wait(100), process.communicate(timeout=1)
            start = time.monotonic()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return Ended(process.returncode, out, err), time.monotonic() - start


@pytest.mark.parametrize(
    ("number", "what"),
    [(signal.SIGINT, "stopped"), (signal.SIGTERM, "stopped by SIGTERM"), (signal.SIGHUP, "stopped by SIGHUP")],
)
def test_a_stopped_build_is_130_and_one_line(
    cli: Cli, silent_index: tuple[str, threading.Event], tmp_path: Path, number: int, what: str
) -> None:
    ended, _ = _stopped(cli, silent_index, number, f"out={tmp_path / 'out'}")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.splitlines()[-1] == f"{what}: run the same command again: finished work is kept"
    assert "Traceback" not in ended.err
    assert "error:" not in ended.err
    assert not list((tmp_path / "store").rglob(".part-*"))


def test_a_stopped_build_with_json_is_one_document(
    cli: Cli, silent_index: tuple[str, threading.Event], tmp_path: Path
) -> None:
    ended, _ = _stopped(cli, silent_index, signal.SIGINT, f"out={tmp_path / 'out'}", "--json")
    assert ended.code == 130
    assert ended.document["error"]["kind"] == "Interrupted"
    assert len(ended.err.splitlines()) == 1


# -- faults -----------------------------------------------------------------------------------


def test_a_fault_is_neither_swallowed_nor_a_bare_traceback(
    here: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def faulty(_request: Request) -> Outcome:
        values: dict[str, str] = {}
        return Outcome({}, values["absent from https://me:s3cret@host/"])

    monkeypatch.setattr(commands, "plan", faulty)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = here("plan", "token=s3cret", "--json")
    assert ended.code == InternalError.exit_code == 70
    assert ended.document["error"]["kind"] == "InternalError"
    assert ended.err.startswith("error: a fault in the builder itself: KeyError\n")
    assert "Traceback" not in ended.err
    assert f"{__file__}:" in ended.err
    (kept,) = tmp_path.glob("spark-wheels-fault-*.txt")
    assert f"report it with {kept}" in ended.err
    text = kept.read_text()
    assert "Traceback" in text
    assert "in faulty" in text
    assert "$ python -m builder plan" in text
    assert "s3cret" not in text
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_fault_with_no_place_to_keep_it_shows_it(here: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def faulty(_request: Request) -> Outcome:
        raise ZeroDivisionError

    monkeypatch.setattr(commands, "plan", faulty)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    ended = here("plan")
    assert ended.code == 70
    assert ended.err.startswith("Traceback")
    assert "report it with the traceback above" in ended.err


@pytest.mark.parametrize(("number", "what"), [(28, "the disk is full"), (13, "cannot use it: Permission denied")])
def test_disk_errors_from_anywhere_are_store_errors(
    here: Call, monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    def full(_request: Request) -> Outcome:
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr(commands, "plan", full)
    ended = here("plan")
    assert ended.code == 14
    assert ended.err.startswith(f"error: {what}\n  where: /some/file\n  next: ")


def test_a_build_with_nothing_to_do_loads_nothing_heavy(cli: Cli) -> None:
    code = "import sys, builder.__main__, builder.commands; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=cli.environment, capture_output=True, text=True, check=True)
    assert not {"numpy", "pydantic", "pygit2", "httpx2", "builder.pipeline"} & set(done.stdout.split())
