# /// script
# dependencies = ["nox>=2024.10.9"]
# ///
"""One session a verb: each only calls `python -m builder VERB key=value`, in an environment of its own."""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests"]

RUNTIME = "locks/runtime.txt"
DEV = "locks/dev.txt"
SIGN = "locks/sign.txt"
DISASSEMBLER = ("nvidia-cuda-cuobjdump==13.5.37", "nvidia-cuda-nvdisasm==13.5.37")  # older ones drop the f
FIND_CUOBJDUMP = (
    "import nvidia, pathlib as p; print(*(x for r in nvidia.__path__ for x in p.Path(r).rglob('cuobjdump')))"
)
HERE = {"PYTHONPATH": "."}
OFFICIAL = ("vllm==0.19.1", "vllm==0.20.0", "vllm")  # the last is the newest
CPU_TORCH = "torch==2.13.0"  # any build will do: only its CPU is used


def _builder(session: nox.Session, verb: str) -> None:
    session.install("--require-hashes", "--no-deps", "-r", RUNTIME)
    session.run("python", "-m", "builder", verb, *session.posargs)


def _dev(session: nox.Session) -> None:
    session.install("--require-hashes", "--no-deps", "-r", DEV)


@nox.session
def build(session: nox.Session) -> None:
    """Build a recipe to verified wheels in an index: recipe=NAME [source=] [toolchain=] [jobs=]."""
    _builder(session, "build")


@nox.session
def plan(session: nox.Session) -> None:
    """Say what a build would do, and do nothing: recipe=NAME."""
    _builder(session, "plan")


@nox.session
def patches(session: nox.Session) -> None:
    """status, overlap, radar, refresh: recipe=NAME [to=VERSION] [releases=RANGE]."""
    _builder(session, "patches")


@nox.session
def inspect(session: nox.Session) -> None:
    """Report what wheels, objects, cubins or folders hold: PATH… [device=12.1]."""
    _builder(session, "inspect")


@nox.session
def verify(session: nox.Session) -> None:
    """Hold wheels against a recipe or a device: [PATH…] recipe=NAME | device=12.1; provenance=PATH their papers."""
    if any(word.startswith("identity=") for word in session.posargs):
        session.install("--require-hashes", "--no-deps", "-r", SIGN)
    _builder(session, "verify")


@nox.session
def publish(session: nox.Session) -> None:
    """Care for an index: add FOLDER… recipe=NAME | rollback | yank FILE… | unyank FILE… | gc keep=N | and more.

    Also lock add FILE…, refresh and attest FOLDER…; index=PLACE says which.
    """
    if "attest" in session.posargs or any(word.startswith("identity=") for word in session.posargs):
        session.install("--require-hashes", "--no-deps", "-r", SIGN)
    _builder(session, "publish")


@nox.session
def sign(session: nox.Session) -> None:
    """Sign the provenance of each wheel in a folder with Sigstore, where CI gives an identity: FOLDER…."""
    session.install("--require-hashes", "--no-deps", "-r", SIGN)
    session.run("python", ".ci/sign.py", *session.posargs)


@nox.session
def image(session: nox.Session) -> None:
    """Make a container image of verified wheels: [push | lock] recipe=NAME [base=oci:PATH] [push=REF]."""
    _builder(session, "image")


@nox.session
def lock(session: nox.Session) -> None:
    """Make a recipe's toolchain lock again: recipe=NAME."""
    _builder(session, "lock")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests that need no compiler and no network beyond the package index."""
    _dev(session)
    session.run("pytest", "-m", "not compile and not image", "-n", "auto", *session.posargs)


@nox.session(venv_backend="venv")
def series(session: nox.Session) -> None:
    """Show each vLLM patch's fault and its absence on upstream's own code, on the CPU (torch is installed)."""
    _dev(session)
    place = f"{session.create_tmp()}/vllm"
    session.run("python", "-m", "venv", place, silent=True)
    python = f"{place}/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    session.run(*pip, "--no-deps", "--require-hashes", "-r", "tests/series/requirements.txt", external=True)
    session.run(*pip, CPU_TORCH, external=True)
    session.run("pytest", "tests/series", *session.posargs, env={"SPARK_WHEELS_SERIES_PYTHON": python})


@nox.session
def agreement(session: nox.Session) -> None:
    """Hold inspect against NVIDIA's disassembler, image by image: WHEEL… (a core works a MB a second)."""
    session.install("--require-hashes", "--no-deps", "-r", RUNTIME)
    session.install(*DISASSEMBLER)
    tool = str(session.run("python", "-c", FIND_CUOBJDUMP, silent=True)).strip()
    session.run("python", "benchmarks/agreement.py", "--cuobjdump", tool, *session.posargs, env=HERE)


@nox.session
def official(session: nox.Session) -> None:
    """The table of docs/verify.md: official vLLM wheels on GB10; OURS.whl… beside them."""
    session.install("--require-hashes", "--no-deps", "-r", RUNTIME)
    session.install("pip")
    place = session.create_tmp()
    get = ["python", "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.12"]
    platforms = [word for glibc in range(17, 40) for word in ("--platform", f"manylinux_2_{glibc}_aarch64")]
    for name in OFFICIAL:
        session.run(*get, *platforms, "-d", f"{place}/{name}", name)
    session.run(
        "python", "benchmarks/official.py", *(f"{place}/{name}" for name in OFFICIAL), *session.posargs, env=HERE
    )


@nox.session
def smoke(session: nox.Session) -> None:
    """Prove the whole line on real upstream source: build recipe=smoke, install, look up (minutes)."""
    _dev(session)
    session.run("pytest", "-m", "compile", "tests/e2e", *session.posargs)


@nox.session
def repro(session: nox.Session) -> None:
    """Build twice in different folders, as different users, on different days, and compare: [recipe=smoke]."""
    session.install("--require-hashes", "--no-deps", "-r", RUNTIME)
    session.run("python", "-m", "benchmarks.repro", *session.posargs, env=HERE)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and architecture."""
    _dev(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """Types, strictly, over the package, the tests and this file."""
    _dev(session)
    session.run("mypy")


@nox.session(name="locks")
def locks(session: nox.Session) -> None:
    """Resolve our own dependencies anew into locks/*.txt, with hashes."""
    session.install("uv")
    compile_ = ["uv", "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes"]
    common = [*compile_, "--no-emit-index-url", "--no-annotate", "--custom-compile-command", "nox -s locks", "-q"]
    session.run(*common, "pyproject.toml", "-o", RUNTIME)
    session.run(*common, "pyproject.toml", "--group", "dev", "-c", RUNTIME, "-o", DEV)
    session.run(*common, "--group", "sign", "-c", DEV, "-o", SIGN)


if __name__ == "__main__":
    nox.main()
