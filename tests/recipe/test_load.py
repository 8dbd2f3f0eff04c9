from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from builder.errors import RecipeError, UsageError
from builder.model import Arch, Superseded
from builder.recipe import known, load

Write = Callable[..., Path]
COMMIT, DIGEST = "a1" * 20, "b2" * 32


def refusal(root: Path, name: str = "bad") -> str:
    with pytest.raises(RecipeError) as caught:
        load(name, root)
    return str(caught.value)


def test_a_good_recipe_becomes_frozen_records(root: Path) -> None:
    recipe = load("good", root)
    vllm, cache = recipe.package("vllm"), recipe.package("flashinfer-jit-cache")
    assert (recipe.name, recipe.revision, recipe.target.machine) == ("good", 1, "aarch64")
    assert recipe.target.cuda_arch == (Arch(12, 1, "a"), Arch(12, 0, "", ptx=True))
    assert vllm.patch_digests == (hashlib.sha256(b"one\n").hexdigest(),)
    assert vllm.prebuilt is not None
    assert vllm.externals[0].commit == COMMIT
    assert (cache.source, cache.version, cache.sha256) == ("flashinfer-python", "0.6.8", DIGEST)
    assert cache.vendored == (("3rdparty/cutlass", "4.4.2"),)
    assert recipe.verify["instructions"] == [
        {"package": "vllm", "object": "vllm/_C_stable_libtorch.abi3.so", "kernel": "*", "needs": "OMMA", "at_least": 1}
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.revision = 2  # type: ignore[misc]


def test_a_recipe_is_found_by_path_too(root: Path) -> None:
    assert load(str(root / "recipes/good.toml"), root) == load("good", root)


NOTED = 'superseded = [{ name = "optional-import", reason = "done upstream", probe = ["x.py: exists"] }]'
COMPONENTS = 'components = ["cumem_allocator", "_C"]'


def noted(*changes: tuple[str, str]) -> str:
    text = NOTED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return f"{COMPONENTS}\n{text}"


def test_other_platforms_are_read(root: Path, write: Write) -> None:
    write("both", ('"linux-aarch64"', '"linux-aarch64"\nplatforms = ["linux-x86_64"]'))
    assert load("both", root).platforms == ("linux-x86_64",)
    assert load("good", root).platforms == ()


def test_what_upstream_has_superseded_is_read(root: Path, write: Write) -> None:
    write("fine", (COMPONENTS, noted(('"] }', '"], bug = "40191" }'))))
    recipe = load("fine", root)
    assert recipe.package("vllm").superseded == (
        Superseded("optional-import", "done upstream", ("x.py: exists",), "40191"),
    )
    assert recipe.package("flashinfer-python").superseded == ()
    assert recipe.digest != load("good", root).digest


BAD_ARCHS = '[[verify.archs]]\npackage = "vllm"\nobject = "*"\narchs = ["12.1x"]\n[[verify.instructions]]'
STRAY_ARCHS = BAD_ARCHS.replace("12.1x", "12.1a").replace('"vllm"', '"vlm"')
FAULTS = [
    (COMPONENTS, noted(("optional-import", "Optional Import")), "'Optional Import' is not lower-case words joined by"),
    (COMPONENTS, noted(('["x.py: exists"]', "[]")), "superseded[0].probe: must not be empty"),
    (COMPONENTS, noted(('reason = "done upstream", ', "")), "superseded[0]: key 'reason' is missing"),
    (COMPONENTS, noted(("probe", "probes")), "superseded[0]: unknown key 'probes', did you mean 'probe'?"),
    (
        COMPONENTS,
        noted(("[{", "[{ name = 'a', reason = 'b', probe = ['c: exists'] }, {"), ("optional-import", "a")),
        "superseded: a is named twice",
    ),
    ('source = "f', f'{NOTED}\nsource = "f', "key 'superseded' comes from its source flashinfer-python"),
    ('commit = "a1', 'comit = "a1', "[[package]] vllm: unknown key 'comit', did you mean 'commit'?"),
    ('commit = "a1', 'comit = "a1', "[[package]] vllm: key 'commit' is missing"),
    ("[toolchain]", "[toolchian]", "unknown key 'toolchian', did you mean 'toolchain'?"),
    ('python = "3.12"', "python = 3.12", "[target]: python: must be a string, not float 3.12"),
    ("revision = 1", "revision = true", "revision: must be an integer, not boolean True"),
    ("revision = 1", "revision = 0", "revision: input should be greater than or equal to 1"),
    ("revision = 1\n", "\n", "key 'revision' is missing"),
    ('"linux-aarch64"', '"linux-aarch64"\nplatforms = ["linux-arm64"]', "platforms[0]: 'linux-arm64' is not one of"),
    ('"linux-aarch64"', '"linux-aarch64"\nplatforms = []', "platforms: must not be empty"),
    ('"linux-aarch64"', '"linux-arm64"', "platform: 'linux-arm64' is not one of linux-aarch64, linux-x86_64"),
    ('"12.1a", ', '"sm_121a", ', "cuda_arch[0]: 'sm_121a' is not a compute capability"),
    ('"12.1a", ', '"12.1a", "12.1a", ', "cuda_arch: listed twice: 12.1a"),
    ('["12.1a", "12.0+PTX"]', "[]", "cuda_arch: must not be empty"),
    ('"12.1a", ', '"13.7a", ', "nvcc 13.0 does not know 13.7a; it knows 7.5, 8.0, 8.6"),
    ('"12.0+PTX"', '"12.2+PTX"', "nvcc 13.0 does not know 12.2; it knows"),
    ('cuda = "13.0.2"', 'cuda = "11.4.0"', "CUDA 11.4.0 is not known here; known are 13.0"),
    ('cuda = "13.0.2"', 'cuda = "13"', "cuda: '13' is not a CUDA release such as 13.0.2"),
    ('torch = "2.11.0"', 'torch = "new"', "torch: 'new' is not a PEP 440 version"),
    (f"@sha256:{DIGEST}", "", "base_image: 'nvidia/cuda:13.0.2' is not an image pinned by digest"),
    ("locks/small.toml", "locks/smal.toml", "there is no recipes/locks/smal.toml, did you mean 'locks/small.toml'?"),
    ("locks/small.toml", "../small.toml", "lock: '../small.toml' is not a relative path"),
    (COMMIT, "a1", "commit: 'a1' is not a commit id of 40 lower-case hex digits"),
    (COMMIT, "A1" * 20, "tree: 'A1A1"),
    (DIGEST, "b2" * 31 + "zz", "is not a SHA-256: 64 lower-case hex digits"),
    ("0001-arch-list.patch", "0001-arch-lists.patch", "there is no patches/vllm/0001-arch-lists.patch, did you mean"),
    ("vllm/0001-arch-list.patch", "../../etc/passwd", "is not a patch such as vllm/0001-slug.patch"),
    ('"vllm-0.20.0.tar.gz"', '"vllm-0.20.1.tar.gz"', "sdist: vllm-0.20.1.tar.gz is not vllm 0.20.0"),
    ('"vllm-0.20.0.tar.gz"', '"vllm.zap"', "sdist: 'vllm.zap' is not an sdist's file name"),
    ("2_35_aarch64", "2_35_x86_64", "manylinux_2_35_x86_64.whl is not for aarch64"),
    ("vllm-0.20.0-cp38", "vllm-0.19.1-cp38", "prebuilt.wheel: vllm-0.19.1-cp38-abi3-manylinux_2_35_aarch64.whl is not"),
    ('"vllm/vllm_flash_attn/_', '"/vllm/_', "prebuilt.files[0]: '/vllm/_vllm_fa2_C.abi3.so' is not a relative path"),
    ('variable = "VLLM', 'tag = "v1"\nvariable = "VLLM', "externals vllm-flash-attn: give either 'commit' or 'tag'"),
    ('variable = "VLLM', 'varable = "VLLM', "externals[0]: unknown key 'varable', did you mean 'variable'?"),
    ("https://example.org/fa", "https://me:pw@example.org/fa", "a https:// or file:// address without a login"),
    ('source = "f', f'commit = "{COMMIT}"\nsource = "f', "key 'commit' comes from its source flashinfer-python"),
    ('source = "flashinfer-python"', 'source = "flashinfer"', "'flashinfer' is not among the packages built, did you"),
    ('name = "flashinfer-jit-cache"', 'name = "vllm"', "[[package]] vllm: named twice"),
    ('name = "vllm"', 'name = "VLLM"', "[[package]] VLLM: name: 'VLLM' is not a normalised project name"),
    ('needs = "OMMA"', 'needs = "OMA"', "'OMA' is no instruction known here, did you mean 'OMMA'?"),
    ("[[verify.instructions]]", "[[verify.instruction]]", "[verify]: unknown key 'instruction', did you mean"),
    ("[[verify.instructions]]", STRAY_ARCHS, "[[verify.archs]]: package: no [[package]] is named 'vlm', did you mean"),
    ("[[verify.instructions]]", BAD_ARCHS, "'12.1x' is not a compute capability such as 12.1a"),
    ("components = [", "components = 7 #", "components: must be an array, not integer 7"),
]


@pytest.mark.parametrize(
    ("old", "new", "told"), FAULTS, ids=[f"{n}-{told[:40]}" for n, (_, _, told) in enumerate(FAULTS)]
)
def test_a_fault_is_told_with_its_table_and_key(root: Path, write: Write, old: str, new: str, told: str) -> None:
    write("bad", (old, new))
    message = refusal(root)
    assert told in message
    assert "bad.toml" in message


@pytest.mark.parametrize("first", ["12.0", "12.1", "12.0+PTX", "10.0a"])
def test_nvfp4_without_an_arch_that_has_it_is_refused(root: Path, write: Write, first: str) -> None:
    write("bad", ('"12.1a", "12.0+PTX"', f'"{first}"'))
    message = refusal(root)
    assert f"must hold OMMA, the NVFP4 matrix instruction (mma kind::mxf4nvf4.block_scale), which {first}" in message
    assert "put one of 12.0f, 12.0a, 12.1a, 12.1f first in [target] cuda_arch" in message


@pytest.mark.parametrize("first", ["12.0f", "12.0a", "12.1a", "12.1f"])
def test_nvfp4_with_an_arch_that_has_it_is_taken(root: Path, write: Write, first: str) -> None:
    write("fine", ('"12.1a", ', f'"{first}", '))
    assert str(load("fine", root).target.cuda_arch[0]) == first


def test_plain_archs_are_fine_where_no_fp4_is_asked_for(root: Path, write: Write) -> None:
    write("fine", ('"12.1a", "12.0+PTX"', '"12.1"'), ('needs = "OMMA"', 'needs = "QMMA"'))
    assert load("fine", root).target.cuda_arch == (Arch(12, 1),)


def test_every_problem_is_told_at_once(root: Path, write: Write) -> None:
    write(
        "bad",
        ('commit = "a1', 'comit = "a1'),
        ('"12.1a", ', '"12.1", "9.9a", '),
        ("0001-arch-list", "0002-gone"),
        ('torch = "2.11.0"', 'torch = "?"'),
    )
    message = refusal(root)
    for part in ("'comit'", "torch: '?'", "does not know 9.9a", "0002-gone", "must hold OMMA", "'commit' is missing"):
        assert part in message
    assert message.splitlines()[0] == "10 problems in recipe bad.toml"


def test_toml_syntax_is_told_with_line_and_column(root: Path, write: Write) -> None:
    write("bad", ('python = "3.12"', "python = = 3"))
    assert "not valid TOML: Invalid value (at line 7, column 10)" in refusal(root)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"revision = 1\nrevision = 2\n", "Cannot overwrite a value (at line 2"),
        (b"\xff\xfe", "not UTF-8: invalid start byte at byte 0"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"", "key 'revision' is missing"),
        (b"package = 3\n", "package: must be an array, not integer 3"),
        (b"package = [1, 2]\n", "[[package]] number 2: must be a table, not integer 2"),
        (b"extends = 3\n", "extends: must be a string, not integer 3"),
        (b'target = "x"\n', "target: must be a table, not string 'x'"),
    ],
)
def test_hostile_files_end_in_one_clear_error(root: Path, data: bytes, told: str) -> None:
    (root / "recipes/bad.toml").write_bytes(data)
    assert told in refusal(root)


def test_an_unknown_name_lists_the_known_ones(root: Path) -> None:
    with pytest.raises(UsageError, match="there is no recipe 'god', did you mean 'good'") as caught:
        load("god", root)
    assert "one of good" in str(caught.value)
    with pytest.raises(UsageError):
        load("recipes/none.toml", root)


def test_known_names_are_sorted_and_leave_out_locks(root: Path, write: Write) -> None:
    write("a")
    (root / "recipes/schema.json").write_text("{}")
    assert known(root) == ("a", "good")


def test_a_file_name_that_no_version_can_carry_is_refused(root: Path, write: Write) -> None:
    write("Größe")
    assert "a recipe's file name is lower-case letters" in refusal(root, "Größe")


def test_the_digest_is_of_what_is_said_not_how(root: Path, write: Write) -> None:
    before = load("good", root).digest
    write("good", ("[target]\n", "# words\n[target]\n"))
    assert load("good", root).digest == before
    write("good", ('"_C"]', '"_moe_C"]'))
    assert load("good", root).digest != before


def test_the_digest_changes_with_a_patch(root: Path) -> None:
    before = load("good", root).digest
    (root / "patches/vllm/0001-arch-list.patch").write_text("two\n")
    assert load("good", root).digest != before


def test_the_same_recipe_elsewhere_has_the_same_digest(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    for path in sorted(root.rglob("*.*")):
        target = other / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert load("good", other).digest == load("good", root).digest
