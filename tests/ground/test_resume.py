"""Whether a build has anything to do: what changes the answer, and what must not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builder import resume
from builder.store import Store

OPTIONS = {"recipe": "smoke", "out": "/out"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("recipes/locks/a.toml", "recipes/smoke.toml", "patches/vllm/0001-a.patch"):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(name)
    return tmp_path / "root"


@pytest.mark.parametrize("name", ["recipes/locks/a.toml", "recipes/smoke.toml", "patches/vllm/0001-a.patch"])
def test_each_file_that_decides_changes_the_key(root: Path, name: str) -> None:
    before = resume.fingerprint(root, OPTIONS)
    assert resume.fingerprint(root, OPTIONS) == before
    (root / name).write_text("other")
    assert resume.fingerprint(root, OPTIONS) != before


def test_new_files_options_and_settings_change_the_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [resume.fingerprint(root, OPTIONS), resume.fingerprint(root, OPTIONS | {"recipe": "aeon7"})]
    (root / "patches" / "vllm" / "0002-b.patch").write_text("new")
    keys.append(resume.fingerprint(root, OPTIONS))
    monkeypatch.setenv("SPARK_WHEELS_ROOT", "/elsewhere")
    keys.append(resume.fingerprint(root, OPTIONS))
    assert len(set(keys)) == 4


def test_a_recipe_by_its_path_and_what_it_may_extend_change_the_key(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options, keys = OPTIONS | {"recipe": "./my.toml"}, list[str]()
    for name in ("my.toml", "base.toml"):
        (tmp_path / name).write_text(name)
        keys.append(resume.fingerprint(root, options))
    (tmp_path / "my.toml").write_text("edited")
    assert len({*keys, resume.fingerprint(root, options)}) == 3


def test_a_compiler_that_is_updated_in_place_changes_the_key(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    keys = [resume.fingerprint(root, OPTIONS)]
    for text in ("12.2.0", "12.3.0"):
        (tmp_path / "aarch64-linux-gnu-g++").write_text(text)
        (tmp_path / "aarch64-linux-gnu-g++").chmod(0o755)
        keys.append(resume.fingerprint(root, OPTIONS))
    assert len(set(keys)) == 3


def test_compiled_python_and_the_order_of_options_do_not(root: Path) -> None:
    before = resume.fingerprint(root, OPTIONS)
    (root / "recipes" / "__pycache__").mkdir()
    (root / "recipes" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert resume.fingerprint(root, dict(reversed(OPTIONS.items()))) == before


def test_our_own_code_is_part_of_the_key(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "builder"
    code.mkdir()
    (code / "resume.py").write_text("1")
    monkeypatch.setattr(resume, "__file__", str(code / "resume.py"))
    before = resume.fingerprint(root, OPTIONS)
    (code / "resume.py").write_text("2")
    assert resume.fingerprint(root, OPTIONS) != before


def test_an_installed_cuda_that_is_updated_in_place_changes_the_key_of_builds_with_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = OPTIONS | {"toolchain": "system"}
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    for program in ("bin/nvcc", "nvvm/bin/cicc"):
        (tmp_path / "cuda" / program).parent.mkdir(parents=True)
        (tmp_path / "cuda" / program).write_text("1")
    before = resume.fingerprint(root, system), resume.fingerprint(root, OPTIONS)
    (tmp_path / "cuda/nvvm/bin/cicc").write_text("2")
    assert resume.fingerprint(root, system) != before[0]
    assert resume.fingerprint(root, OPTIONS) == before[1]


@pytest.fixture
def built(tmp_path: Path) -> dict[str, object]:
    """The document of a build whose wheel and index stand."""
    folder, index = tmp_path / "wheels", tmp_path / "index"
    folder.mkdir()
    (index / "simple/some-name").mkdir(parents=True)
    (folder / "a.whl").write_bytes(b"wheel")
    (index / "simple" / "index.html").write_text("x")
    page = {"files": [{"filename": "a.whl", "hashes": {"sha256": "1" * 64}}]}
    (index / "simple/some-name/index.json").write_text(json.dumps(page))
    wheel = {"name": "Some_Name", "file": "a.whl", "size": 5, "sha256": "1" * 64}
    return {"folder": str(folder), "wheels": [wheel], "index": str(index)}


def _earlier(tmp_path: Path, document: dict[str, object]) -> object:
    store = Store(tmp_path / "store")
    store.keep_record("build", "key", document)
    assert resume.earlier(store, "another") is None
    return resume.earlier(store, "key")


def test_what_stands_is_not_built_again(tmp_path: Path, built: dict[str, object]) -> None:
    assert _earlier(tmp_path, built) == built


@pytest.mark.parametrize("page", ["", "[]", "{}", '{"files": []}', '{"files": [{"filename": "a.whl", "hashes": {}}]}'])
def test_an_index_without_the_wheel_gets_it(tmp_path: Path, built: dict[str, object], page: str) -> None:
    (tmp_path / "index/simple/some-name/index.json").write_text(page)
    assert _earlier(tmp_path, built) is None


def test_an_index_with_other_bytes_of_that_name_is_asked(tmp_path: Path, built: dict[str, object]) -> None:
    (tmp_path / "index/simple/some-name/index.json").write_text(
        json.dumps({"files": [{"filename": "a.whl", "hashes": {"sha256": "2" * 64}}]})
    )
    assert _earlier(tmp_path, built) is None


def test_an_index_that_cannot_be_asked_is_no_reason_to_do_nothing(
    tmp_path: Path, built: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert _earlier(tmp_path, built | {"index": "s3://bucket/prefix"}) is None


def test_wheels_that_wait_for_others_are_not_looked_for(tmp_path: Path, built: dict[str, object]) -> None:
    held = {"held": ["some-name 1.0 for linux-x86_64"]}
    assert _earlier(tmp_path, built | held) is None  # they have come meanwhile
    (tmp_path / "index/simple/some-name/index.json").unlink()
    assert _earlier(tmp_path, built | held) is not None


@pytest.mark.parametrize("lost", ["wheels/a.whl", "index/simple/index.html", "index/simple/some-name/index.json"])
def test_a_lost_file_is_made_again(tmp_path: Path, built: dict[str, object], lost: str) -> None:
    (tmp_path / lost).unlink()
    assert _earlier(tmp_path, built) is None


def test_a_cut_wheel_is_made_again(tmp_path: Path, built: dict[str, object]) -> None:
    (tmp_path / "wheels" / "a.whl").write_bytes(b"whe")
    assert _earlier(tmp_path, built) is None


@pytest.mark.parametrize(
    "change", [{"wheels": None}, {"wheels": [{}]}, {"wheels": [1]}, {"folder": 3}, {"index": None}, {"index": []}]
)
def test_a_record_of_another_shape_counts_as_absent(
    tmp_path: Path, built: dict[str, object], change: dict[str, object]
) -> None:
    assert _earlier(tmp_path, built | change) is None
    assert _earlier(tmp_path, {}) is None
