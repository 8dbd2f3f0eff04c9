"""What is planned for an image, without a tool: needs, lock, tools' words, the Containerfile, the staged layers."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from builder.context import Context
from builder.errors import (
    FetchError,
    NegativeVerdict,
    RecipeError,
    RunError,
    ToolchainError,
    UsageError,
    WheelError,
)
from builder.image.base import bring, look_over
from builder.image.container import containerfile, steps
from builder.image.lock import files_in
from builder.image.needs import Project, hold_together, project_of, unmet
from builder.image.stage import Part, finish, own_files, stage, take_ptxas
from builder.image.tools import NAMES, Job, commands, find_tool, leavings
from builder.image.verbs import run_verb
from builder.model import ImagePin
from builder.recipe import load, read_lock
from builder.run import Completed
from builder.verify.image.places import EPOCH, LAYERS, Python, environment, healthcheck
from tests.image.conftest import ELF
from tests.image.layouts import FOLDER, Node, Picture, layer_tar, write_layout
from tests.publish.wheels import AARCH64, build_wheel

ROOT = Path(__file__).parents[2]
PY312 = Python("3.12")
PIN = ImagePin("x@sha256:" + "0" * 64, "locks/x.toml", ("python3.12",), "20261101T000000Z")


# -- needs --------------------------------------------------------------------------------------


def project(name: str, version: str, *requires: str, python: str = "") -> Project:
    return Project(canonicalize_name(name), Version(version), tuple(map(Requirement, requires)), python)


def test_requirements_are_followed_for_the_target_and_with_extras() -> None:
    root = project("vllm", "1.0+aeon7.1", "torch==2.11.0", "api[standard]>=1", 'win; sys_platform == "win32"')
    lock = [
        project("torch", "2.11.0+cu130", 'only-x86; platform_machine == "x86_64"'),
        project("api", "1.2", 'server>=2; extra == "standard"'),
        project("server", "2.5", "deep"),
    ]
    assert unmet([root], lock, "aarch64", "3.12") == ["server 2.5 needs deep: the lock has none"]
    assert len(unmet([root], lock, "x86_64", "3.12")) == 2


def test_a_lock_that_the_wheels_have_outgrown() -> None:
    root = project("vllm", "2", "numpy>=3", python=">=3.13")
    with pytest.raises(RecipeError) as caught:
        hold_together([root], [project("numpy", "2.5")], "aarch64", "3.12", Path("x.toml"))
    assert "vllm 2 needs numpy>=3: the lock has 2.5" in str(caught.value)
    assert "is for Python >=3.13, not 3.12" in str(caught.value)
    assert "image lock recipe=NAME" in str(caught.value)


def test_a_file_that_is_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "a-1-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(WheelError, match="does not say what it needs"):
        project_of(tmp_path / "a-1-py3-none-any.whl")


# -- lock ---------------------------------------------------------------------------------------


VLLM = Path("vllm-1-py3-none-any.whl")


def answer(**wheel: object) -> Mapping[str, Any]:
    return {"packages": [{"name": "Demo_X", "version": "1.0", "wheels": [wheel]}, {"name": "vllm", "version": "1"}]}


def test_uvs_answer_becomes_a_lock_without_addresses() -> None:
    wheel = {"url": "https://index/x/demo_x-1.0-py3-none-any.whl", "size": 7, "hashes": {"sha256": "a" * 64}}
    (file,) = files_in(answer(**wheel), "aarch64", [VLLM])
    assert (file.project, file.version, file.filename) == ("demo-x", "1.0", "demo_x-1.0-py3-none-any.whl")
    assert (file.size, file.roles) == (7, ("image-aarch64",))


def test_a_file_without_a_digest_is_not_locked() -> None:
    with pytest.raises(FetchError, match="digest and size of demo-x"):
        list(
            files_in(
                answer(url="https://index/demo_x-1.0-py3-none-any.whl"), "aarch64", [Path("vllm-1-py3-none-any.whl")]
            )
        )


def test_the_lock_of_the_repository_fits_its_recipe() -> None:
    recipe = load("aeon7", ROOT)
    assert recipe.image is not None
    files = {file.project: file for file in read_lock(ROOT / "recipes" / recipe.image.lock)}
    assert files["torch"].version == recipe.toolchain.torch
    assert files["flashinfer-cubin"].version == recipe.package("flashinfer-python").version
    assert not {package.name for package in recipe.packages} & set(files)
    assert all(file.filename.endswith("aarch64.whl") or "-none-any" in file.filename for file in files.values())
    assert recipe.target.python.replace(".", "") in files["torch"].filename


# -- tools --------------------------------------------------------------------------------------


class Door:
    """A Runner that has some programs and keeps what it was told."""

    def __init__(
        self, *there: str, engine: bool = True, driver: str = "docker-container", store: str = "overlay2"
    ) -> None:
        self.there, self.engine, self.told = there, engine, list[tuple[str, ...]]()
        self.said = {
            "buildx inspect": f"Name:          some\nDriver:        {driver}\n\nNodes:\nDriver Options: a\n",
            "info -f {{.DriverStatus}}": f"[[driver-type {store}]]\n",
        }

    def __call__(self, argv: Sequence[str | Path], **_: object) -> Completed:
        words = tuple(map(str, argv))
        self.told.append(words)
        if words[0] not in self.there:
            raise RunError(f"{words[0]} cannot be started")
        bad = words[:2] == ("docker", "info") and not self.engine
        return Completed(words, int(bad), self.said.get(" ".join(words[1:]), ""))


def test_the_first_tool_that_answers_is_taken() -> None:
    assert find_tool(Door(*NAMES)) == "docker"
    assert find_tool(Door(*NAMES, engine=False)) == "podman"
    assert find_tool(Door("buildah")) == "buildah"
    assert find_tool(Door(*NAMES), "buildah") == "buildah"


def test_a_docker_that_cannot_write_a_layout_gives_way() -> None:
    """As it is installed: the engine's own builder, and the classic image store."""
    assert find_tool(Door("docker", "buildah", driver="docker")) == "buildah"
    assert find_tool(Door(*NAMES, driver="docker")) == "podman"
    assert find_tool(Door(*NAMES, driver="docker", store="io.containerd.snapshotter.v1")) == "docker"


@pytest.mark.parametrize(("there", "wanted"), [(("docker",), ""), (NAMES, "docker")])
@pytest.mark.parametrize("driver", ["docker", ""])
def test_a_docker_that_cannot_write_a_layout_is_refused_alone(there: Sequence[str], wanted: str, driver: str) -> None:
    door = Door(*there, driver=driver)
    with pytest.raises(ToolchainError, match="docker buildx create --use"):
        find_tool(door, wanted)
    assert all("build" not in words for words in door.told), "asked, and nothing begun"


def test_no_tool_at_all_names_the_command_that_brings_one() -> None:
    with pytest.raises(ToolchainError, match="apt-get install buildah"):
        find_tool(Door())
    with pytest.raises(UsageError, match="tool=kaniko is unknown"):
        find_tool(Door(), "kaniko")


@pytest.mark.parametrize("tool", NAMES)
def test_each_tool_is_told_the_platform_the_base_and_the_time(tool: str) -> None:
    job = Job(Path("/c"), "oci:/base", "sha256:" + "1" * 64, "arm64", Path("/o"), Path("/s"))
    first, *rest = commands(tool, job)
    text = " ".join(first)
    assert "--platform linux/arm64" in text
    assert "--file /c/Containerfile" in text
    assert str(EPOCH) in text
    if tool == "docker":
        assert "base=oci-layout:///base@sha256:1" in text
        assert "dest=/o" in text
        assert leavings(tool, job) == rest == []
    else:
        assert "BASE=oci:/base" in text
        assert rest[0][-2:] == ["spark-wheels-image", "oci:/o"]
        assert all("/s/root" in " ".join(argv) for argv in (first, *rest, *leavings(tool, job)))


def test_the_containerfile_is_what_every_tool_accepts() -> None:
    text = containerfile(PIN, PY312, "0", with_packages=True)
    assert "<<" not in text
    assert "--mount" not in text
    assert text.count("RUN ") == 1
    assert "apt-get install -y --no-install-recommends --snapshot 20261101T000000Z python3.12" in text
    assert [line.split()[2] for line in text.splitlines() if line.startswith("COPY")] == [f"{n}/" for n in LAYERS]
    assert text.index("RUN ") < text.index("COPY ") < text.index("USER 10001:10001")
    plain = containerfile(PIN, PY312, "0", with_packages=False)
    assert "RUN " not in plain
    assert (
        'HEALTHCHECK --interval=30s --timeout=10s --start-period=1800s --retries=3 CMD ["/opt/spark/bin/health"]'
        in plain
    )
    assert len(steps(PIN, with_packages=False)) == len(LAYERS) == len(steps(PIN, with_packages=True)) - 1
    assert "python3.12" in steps(PIN, with_packages=True)[0]
    assert healthcheck()["Test"] == ["CMD", "/opt/spark/bin/health"]
    assert environment(PIN, PY312, "0")["LD_LIBRARY_PATH"] == ""
    assert "CUDA_HOME" not in environment(PIN, PY312, "0")
    assert environment(replace(PIN, jit=True), PY312, "0")["CUDA_HOME"].endswith("/site-packages/nvidia/cu13")


# -- layers -------------------------------------------------------------------------------------


def nvcc(folder: Path) -> Path:
    path = folder / "nvidia_cuda_nvcc-13.0.88-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nvidia/cu13/bin/ptxas", ELF)
    return path


def staged(into: Path, wheels: Path, payload: bytes = ELF) -> Path:
    demo = build_wheel(wheels, "demo", "1.0", AARCH64, payload=payload, requires_python=">=3")
    torch = build_wheel(wheels, "torch", "2.11.0", AARCH64, payload=b"t", requires_python=">=3")
    cuda = build_wheel(wheels, "nvidia-x", "1", AARCH64, payload=b"n", requires_python=">=3")
    other = build_wheel(wheels, "other", "1", AARCH64, payload=b"o", requires_python=">=3")
    parts = [Part(p.name.split("-")[0].replace("_", "-"), p, p.name) for p in (torch, cuda, other)]
    stage([Part("demo", demo, demo.name, ours=True), *parts], PY312, into)
    take_ptxas(nvcc(wheels), into)
    own_files(PY312, {"passwd": "root:x:0:0::/root:/bin/sh\n"}, into)
    finish(into)
    return into


def listing(root: Path) -> dict[str, tuple[int, float, bytes | str]]:
    found: dict[str, tuple[int, float, bytes | str]] = {}
    for path in root.rglob("*"):
        state = path.lstat()
        body = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(root))] = (state.st_mode, state.st_mtime, body)
    return found


def test_each_wheel_is_in_its_layer_and_what_is_compiled_apart_from_python(tmp_path: Path) -> None:
    files = listing(staged(tmp_path / "a", tmp_path / "w"))
    site = "opt/spark/lib/python3.12/site-packages"
    for path in (
        f"cuda/{site}/nvidia_x/payload.bin",
        "cuda/opt/spark/bin/ptxas",
        f"torch/{site}/torch/__init__.py",
        f"deps/{site}/other/__init__.py",
        f"native/{site}/demo/payload.bin",
        f"ours/{site}/demo/__init__.py",
        f"ours/{site}/demo-1.0.dist-info/RECORD",
        "ours/opt/spark/bin/entrypoint",
        "ours/etc/passwd",
        "home/.cache",
    ):
        assert path in files, path
    assert files["ours/opt/spark/bin/python3"][2] == "/usr/bin/python3.12"
    assert not any(path.endswith(".pyc") for path in files)


def test_staging_twice_gives_the_same_files_modes_and_times(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        first = listing(staged(tmp_path / "a", tmp_path / "w"))
    finally:
        os.umask(before)
    assert first == listing(staged(tmp_path / "b", tmp_path / "v"))
    assert {time for mode, time, _ in first.values()} == {EPOCH}


def test_a_line_of_python_changes_the_last_layer_alone(tmp_path: Path) -> None:
    first = listing(staged(tmp_path / "a", tmp_path / "w"))
    wheels = tmp_path / "v"
    demo = build_wheel(wheels, "demo", "1.1", AARCH64, payload=ELF, requires_python=">=3")
    stage([Part("demo", demo, demo.name, ours=True)], PY312, tmp_path / "b")
    finish(tmp_path / "b")
    changed = listing(tmp_path / "b")
    assert {k: v for k, v in changed.items() if k.startswith("native/")} == {
        k: v for k, v in first.items() if k.startswith("native/")
    }


def with_file(folder: Path, name: str, path: str, data: bytes, *, ours: bool = False) -> Part:
    """A wheel that brings one file more."""
    wheel = build_wheel(folder, name, "1", AARCH64, payload=b"p", requires_python=">=3")
    with zipfile.ZipFile(wheel) as source:
        members = {member: source.read(member) for member in source.namelist()}
    record = f"{name}-1.dist-info/RECORD"
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    members |= {path: data, record: f"{path},sha256={digest},{len(data)}\n".encode() + members[record]}
    with zipfile.ZipFile(wheel, "w") as target:
        for member, body in members.items():
            target.writestr(member, body)
    return Part(name, wheel, wheel.name, ours=ours)


def test_wheels_that_collide_are_refused(tmp_path: Path) -> None:
    parts = [with_file(tmp_path / name, name, "shared/x.py", name.encode()) for name in ("one", "two")]
    with pytest.raises(WheelError, match=r"different files of one name: x\.py"):
        stage(parts, PY312, tmp_path / "x")
    same = [with_file(tmp_path / name, name, "shared/x.py", b"same") for name in ("one", "two")]
    stage(same, PY312, tmp_path / "y")


def test_a_build_backend_packed_by_mistake_is_ours(tmp_path: Path) -> None:
    one = with_file(tmp_path / "one", "one", "build_backend.py", b"other")
    zoo = with_file(tmp_path / "zoo", "zoo", "build_backend.py", b"ours", ours=True)
    stage([one, zoo], PY312, tmp_path / "x")
    (kept,) = (tmp_path / "x").rglob("build_backend.py")
    assert kept.read_bytes() == b"ours"


# -- base ---------------------------------------------------------------------------------------


def test_a_base_is_looked_over_before_anything_is_laid_on_it(tmp_path: Path, context: Context) -> None:
    write_layout(tmp_path / "stub", Picture([layer_tar({"usr/lib/libcuda.so.1": Node(ELF)})]))
    base = bring(f"oci:{tmp_path / 'stub'}", "arm64", context)
    with pytest.raises(NegativeVerdict) as caught:
        look_over(base, PY312, "arm64", brings_python=False)
    assert "image-libcuda: /usr/lib/libcuda.so.1" in str(caught.value)
    assert "image-python: /usr/bin/python3.12" in str(caught.value)


def test_a_good_base_and_its_users(tmp_path: Path, context: Context) -> None:
    nodes = {"usr": FOLDER, "usr/bin/python3.12": Node(ELF, 0o755), "etc/passwd": Node(b"root:x:0:0::/:/bin/sh\n")}
    digest = write_layout(tmp_path / "good", Picture([layer_tar(nodes)]))
    base = bring(f"oci:{tmp_path / 'good'}", "arm64", context)
    look_over(base, PY312, "arm64", brings_python=False)
    assert base.digest == digest
    assert base.passwd.splitlines() == ["root:x:0:0::/:/bin/sh", "spark:x:10001:10001::/home/spark:/usr/sbin/nologin"]


# -- the verb -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "options", "error", "match"),
    [
        ([], {}, UsageError, "which recipe"),
        (["pull"], {"recipe": "aeon7"}, UsageError, "no verb 'pull'"),
        ([], {"recipe": "aeon7", "bse": "x"}, UsageError, "did you mean base="),
        (
            [],
            {"recipe": "aeon7", "base": "nvidia/cuda:13.0.2-runtime-ubuntu24.04"},
            RecipeError,
            "not pinned by digest",
        ),
        (["push"], {"recipe": "aeon7"}, UsageError, "push where to"),
        (["push"], {"recipe": "aeon7", "push": "x/y"}, UsageError, "not one wheel of each package"),
        (["lock"], {"recipe": "aeon7", "wheels": "/nowhere"}, UsageError, "not one wheel of each package"),
    ],
)
def test_what_the_verb_refuses(
    words: list[str], options: Mapping[str, str], error: type[Exception], match: str, context: Context, tmp_path: Path
) -> None:
    with pytest.raises(error, match=match):
        run_verb(words, options, context, ROOT, tmp_path)


# -- the programs in the image ------------------------------------------------------------------


def run(name: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = ROOT / "builder" / "image" / "files" / name
    call = [sys.executable, str(program), *words]
    return subprocess.run(call, check=False, capture_output=True, text=True, env=os.environ | env)


def test_the_entrypoint_says_what_it_can_do() -> None:
    shown = run("entrypoint", "--help")
    assert shown.returncode == 0
    for command in ("serve MODEL", "vllm", "check", "version", "python"):
        assert f"\n  {command}" in shown.stdout
    assert run("entrypoint").stdout == shown.stdout
    wrong = run("entrypoint", "sevre")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unknown command 'sevre'" in wrong.stderr


def test_the_entrypoint_tells_versions_and_becomes_other_programs() -> None:
    assert isinstance(json.loads(run("entrypoint", "version").stdout), dict)
    assert run("entrypoint", "/bin/echo", "a b").stdout == "a b\n"
    assert run("entrypoint", "/nowhere").returncode == 127


@pytest.mark.parametrize("command", ["serve", "vllm"])
def test_what_lies_where_it_is_started_is_no_module_of_vllm(tmp_path: Path, command: str) -> None:
    """A team's folder with a types.py in it, mounted and made the working folder, ends no server."""
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "builder" / "image" / "files" / "entrypoint", tmp_path / "bin")
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    cli = tmp_path / "site" / "vllm" / "entrypoints" / "cli" / "main.py"
    cli.parent.mkdir(parents=True)
    cli.write_text("import json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    work = tmp_path / "work"
    work.mkdir()
    for name in ("json", "vllm"):
        (work / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    call = [sys.executable, str(tmp_path / "bin" / "entrypoint"), command, "a/model", "--port", "9"]
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(call, check=False, capture_output=True, text=True, cwd=work, env=env)
    passed = ["serve"] if command == "serve" else []
    assert json.loads(done.stdout) == [*passed, "a/model", "--port", "9"], done.stderr


def test_the_health_check_follows_the_server() -> None:
    import http.server
    import threading

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert run("health", SPARK_HEALTH_URL=f"{url}/health").returncode == 0
        assert run("health", SPARK_HEALTH_URL=f"{url}/other").returncode == 1
        proxied = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
        assert run("health", SPARK_HEALTH_URL=f"{url}/health", no_proxy="", **proxied).returncode == 0
        server.shutdown()
    assert run("health", SPARK_HEALTH_URL=f"{url}/health").returncode == 1
