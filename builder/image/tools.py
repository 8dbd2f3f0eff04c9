"""docker buildx, podman and buildah: which one is there, and what to say to it. Planning only; verbs run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from builder.errors import RunError, ToolchainError, UsageError
from builder.run import Completed, Runner
from builder.verify.image.places import EPOCH

NAMES: Final = ("docker", "podman", "buildah")
"""In the order in which they are looked for."""

_PROBES: Final = {
    "docker": (("docker", "buildx", "version"), ("docker", "info")),
    "podman": (("podman", "--version"),),
    "buildah": (("buildah", "--version"),),
}
_BUILDER: Final = ("docker", "buildx", "inspect")
_STORE: Final = ("docker", "info", "-f", "{{.DriverStatus}}")
TAG: Final = "spark-wheels-image"


@dataclass(frozen=True, slots=True)
class Job:
    """One build: the prepared context with its Containerfile, the base's layout, and where the layout goes."""

    context: Path
    base: str
    base_digest: str
    architecture: str
    out: Path
    storage: Path


def find_tool(run: Runner, wanted: str = "") -> str:
    """The first that answers and can write a layout; a docker without an engine does not answer.

    Raises UsageError for an unknown name, ToolchainError when none is there.
    """
    if wanted and wanted not in NAMES:
        raise UsageError(f"tool={wanted} is unknown", expected=" or ".join(f"tool={name}" for name in NAMES))
    bound = False
    for name in (wanted,) if wanted else NAMES:
        if all(_answers(run, probe) for probe in _PROBES[name]):
            if name != "docker" or _docker_writes_layouts(run):
                return name
            bound = True
    raise _docker_is_bound() if bound else _no_tool(wanted)


def _docker_writes_layouts(run: Runner) -> bool:
    """An engine's own builder writes into its store alone, unless that is containerd's; any other builder can.

    It is asked before a build, for the refusal would come after gigabytes have been staged.
    """
    lines = (line.partition(":") for line in _said(run, _BUILDER).splitlines())
    driver = next((value.strip() for name, _, value in lines if name.strip() == "Driver"), "")
    return driver not in {"", "docker"} or "io.containerd.snapshotter" in _said(run, _STORE)


def _docker_is_bound() -> ToolchainError:
    return ToolchainError(
        "docker is here, but its builder cannot write an OCI layout (driver docker, classic image store)",
        expected="a builder with another driver, or an engine with containerd's image store",
        remedy="docker buildx create --use; or apt-get install buildah",
    )


def _no_tool(wanted: str) -> ToolchainError:
    return ToolchainError(
        f"{wanted or 'no tool that builds images'} is not here, or its engine does not run",
        expected="docker with buildx, podman, or buildah",
        remedy="apt-get install buildah",
    )


def commands(tool: str, job: Job) -> list[list[str]]:
    """The argument lists that make the layout, in order."""
    return _docker(job) if tool == "docker" else _containers(tool, job)


def _docker(job: Job) -> list[list[str]]:
    layout = job.base.removeprefix("oci:")
    return [
        [
            *("docker", "buildx", "build", "--platform", f"linux/{job.architecture}"),
            *("--provenance=false", "--sbom=false", "--build-context", f"base=oci-layout://{layout}@{job.base_digest}"),
            *("--build-arg", "BASE=base", "--build-arg", f"SOURCE_DATE_EPOCH={EPOCH}"),
            *("--output", f"type=oci,tar=false,rewrite-timestamp=true,dest={job.out}"),
            *("--file", str(job.context / "Containerfile"), str(job.context)),
        ]
    ]


def _containers(tool: str, job: Job) -> list[list[str]]:
    """The engine of podman and buildah is one, and takes the same words; the storage is of this build alone."""
    start = [tool, *_storage(job)]
    isolation = ["--isolation", "chroot"] if tool == "buildah" else []
    return [
        [
            *(*start, "build", *isolation, "--platform", f"linux/{job.architecture}", "--format", "oci"),
            *("--layers", "--pull=never", "--timestamp", str(EPOCH), "--build-arg", f"BASE={job.base}"),
            *("--file", str(job.context / "Containerfile"), "--tag", TAG, str(job.context)),
        ],
        [*start, "push", TAG, f"oci:{job.out}"],
    ]


def leavings(tool: str, job: Job) -> list[list[str]]:
    """What ends a build that podman or buildah began, whole or not; docker keeps its own house."""
    if tool == "docker":
        return []
    start = [tool, *_storage(job)]
    return [[*start, "rm", "--all"], [*start, "rmi", "--all", "--force"]]


def _storage(job: Job) -> Sequence[str]:
    root = ("--root", str(job.storage / "root"), "--runroot", str(job.storage / "run"))
    return (*root, "--storage-driver", "overlay")


def _answers(run: Runner, argv: Sequence[str]) -> bool:
    done = _tried(run, argv)
    return done is not None and done.returncode == 0


def _said(run: Runner, argv: Sequence[str]) -> str:
    """What a command says that ends well; nothing from another."""
    done = _tried(run, argv)
    return done.output if done is not None and done.returncode == 0 else ""


def _tried(run: Runner, argv: Sequence[str]) -> Completed | None:
    try:
        return run(argv, check=False)
    except RunError:
        return None
