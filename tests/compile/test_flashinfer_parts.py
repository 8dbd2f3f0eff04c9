"""FlashInfer's modules are kept by what they are compiled from: a small FlashInfer, its generators and ninja run."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builder.compile import flashinfer
from builder.compile.flashinfer import build_jit_cache, build_python, compile_share
from builder.compile.host import Compilers
from builder.compile.job import Job
from builder.compile.shard import Share
from builder.compile.toolchain import Toolchain
from builder.context import Context
from builder.errors import CompileError
from builder.git import EMPTY_TREE, Entry, Objects
from builder.model import PatchedTree
from builder.recipe import load
from builder.store import sha256_of

ROOT = Path(__file__).parents[2]
AOT = """
from flashinfer.jit import env
from flashinfer.compilation_context import RULES

class Spec:
    name = "m"

    @property
    def ninja_path(self):
        return env.FLASHINFER_JIT_DIR / "m" / "build.ninja"

    def write_ninja(self):
        place = self.ninja_path.parent
        place.mkdir(exist_ok=True)
        object_ = f"{place}/x.cuda.o"
        edges = f"build {object_}: cuda_compile {env.FLASHINFER_CSRC_DIR}/x.cu\\nbuild {place}/m.so: link {object_}\\n"
        self.ninja_path.write_text(RULES + edges)

def get_default_config():
    names = ("f16_dtype", "f8_dtype", "fa2_head_dim", "fa3_head_dim", "use_sliding_window", "use_logits_soft_cap")
    return dict.fromkeys(names)

def detect_sm_capabilities():
    return {}

def gen_all_modules(**_config):
    return [Spec()]
"""
RULES = '''
RULES = """
rule cuda_compile
  command = echo $out >> {log} && cp $in $out
rule link
  command = cp $in $out
"""
'''
FILES = {
    "flashinfer/__init__.py": "raise AssertionError('imports all of torch')\n",
    "flashinfer/aot.py": AOT,
    "flashinfer/jit/__init__.py": "",
    "flashinfer/jit/env.py": "",
    "flashinfer/prefill.py": "one = 1\n",
    "csrc/x.cu": "kernel\n",
}


class Bench:
    """A tree of files, and builds from it; `compiled` is what ninja made so far."""

    def __init__(self, job: Job, log: Path) -> None:
        self.job, self.log, self.builds = job, log, 0
        self.objects = Objects(job.context.store.git_dir("flashinfer-python"))
        self.files = FILES | {"flashinfer/compilation_context.py": RULES.format(log=log)}

    def trees(self) -> dict[str, PatchedTree]:
        entries = {path: Entry(0o100644, self.objects.write(text.encode())) for path, text in self.files.items()}
        tree = self.objects.edit(EMPTY_TREE, entries)
        name = "flashinfer-python"
        return {name: PatchedTree(name, self.job.context.store.git_dir(name), "", tree, tree, ())}

    def build(self, **changed: object) -> str:
        """The wheel's digest."""
        self.builds += 1
        job = replace(self.job, out=self.job.out / str(self.builds), **changed)  # type: ignore[arg-type]
        return sha256_of(build_jit_cache(job, self.trees()))

    def share(self) -> None:
        compile_share(self.job, self.trees(), Share(1, 1))

    @property
    def compiled(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def bench(context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    ninja = shutil.which("ninja")
    if ninja is None:
        pytest.skip("no ninja in PATH")
    monkeypatch.setenv("SPARK_WHEELS_ROOT", str(tmp_path / "root"))
    root = tmp_path / "toolchain"
    (root / "bin").mkdir(parents=True)
    (root / "bin/ninja").symlink_to(ninja)
    recipe = load("smoke", ROOT)
    package = replace(recipe.package("flashinfer-jit-cache"), components=("m",))
    compilers = Compilers(Path("cc"), Path("c++"), Path("strip"), "1", cross=False)
    python = Path(sys.executable)
    toolchain = Toolchain("k", "index", "aarch64", "13", "2", root, root, root, python, root / "site", compilers)
    versions = {"flashinfer-python": "1+a", "flashinfer-jit-cache": "1+a"}
    job = Job(recipe, package, "1+a", toolchain, context, tmp_path / "out", 1, versions)
    return Bench(job, tmp_path / "compiled")


def forget_work(bench: Bench) -> None:
    shutil.rmtree(bench.job.out.parent / "root")


def test_a_change_of_python_runs_no_generator_and_no_compiler(bench: Bench) -> None:
    first = bench.build()
    forget_work(bench)
    bench.files |= {"flashinfer/prefill.py": "two = 2\n", "README.md": "other\n", "flashinfer/new.py": "\n"}
    assert bench.build() == first
    assert bench.compiled == 1
    assert not (bench.job.out.parent / "root/src").exists()
    assert bench.build(version="1+b", sibling_versions={"flashinfer-python": "1+b"}) != first
    assert bench.compiled == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("csrc/x.cu", "other kernel\n"),
        ("include/x.cuh", "header\n"),
        ("3rdparty/cutlass/include/x.hpp", "header\n"),
        ("flashinfer/jit/env.py", "# other\n"),
        ("flashinfer/aot.py", f"{AOT}# other\n"),
        ("unheard_of", "it may be read\n"),
    ],
)
def test_a_change_of_what_may_reach_a_module_compiles_it(bench: Bench, path: str, text: str) -> None:
    bench.build()
    forget_work(bench)
    bench.files |= {path: text}
    bench.build()
    assert bench.compiled == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda job: {"toolchain": replace(job.toolchain, key="other")},
        lambda job: {"toolchain": replace(job.toolchain, layout="other")},
        lambda job: {
            "recipe": replace(job.recipe, target=replace(job.recipe.target, cuda_arch=job.recipe.target.cuda_arch[1:]))
        },
    ],
)
def test_another_toolchain_or_target_compiles_it(bench: Bench, change: Callable[[Job], dict[str, object]]) -> None:
    bench.build()
    forget_work(bench)
    bench.build(**change(bench.job))
    assert bench.compiled == 2


def test_generators_that_are_written_in_more_than_is_known_keep_nothing(bench: Bench) -> None:
    bench.files["flashinfer/aot.py"] = f"import flashinfer.prefill\n{AOT}"
    bench.build()
    stream = bench.job.context.report.stream
    assert isinstance(stream, io.StringIO)
    assert "generators import flashinfer/prefill.py too" in stream.getvalue()
    forget_work(bench)
    bench.build()
    assert bench.compiled == 2


def test_a_share_goes_through_the_cache_though_its_modules_are_kept(bench: Bench) -> None:
    bench.build()
    bench.share()
    assert bench.compiled == 2


def test_kept_modules_are_judged_by_todays_reasons(bench: Bench) -> None:
    bench.files["flashinfer/aot.py"] = AOT.replace("[Spec()]", "[Spec(), Other()]") + (
        "\nclass Other(Spec):\n    name = 'xqa_mla_x'\n"
    )
    bench.build()
    forget_work(bench)
    (kept,) = (bench.job.context.store.root / "trees").glob("native-*")
    listed = kept / "listed.json"
    listed.write_text(listed.read_text().replace("xqa_mla_x", "unheard_of"))
    with pytest.raises(CompileError, match="whether to build unheard_of"):
        bench.build()


def test_what_an_earlier_wheel_collected_is_in_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """setuptools adds to its folder: a file that upstream or a patch has removed would stay in every wheel."""
    collected: list[set[str]] = []

    def build(source: Path, *_: object, **__: object) -> Path:
        there = source / "build" / "lib"
        collected.append({path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()})
        for name in (*bench.files, "flashinfer/data/csrc/x.cu"):
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_text(bench.files.get(name, "kernel\n"))
        return source

    monkeypatch.setattr(flashinfer, "build_wheel", build)
    job = replace(bench.job, package=load("smoke", ROOT).package("flashinfer-python"))
    everything = set(bench.files)
    build_python(job, bench.trees())
    build_python(job, bench.trees())
    del bench.files["flashinfer/prefill.py"]
    build_python(job, bench.trees())
    assert collected == [set(), everything, set()]
