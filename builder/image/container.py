"""The Containerfile of one image, from the checked-in template."""

from __future__ import annotations

from importlib import resources

from builder.image.places import ENTRYPOINT, HEALTH, HOME, LAYERS, PORT, PREFIX, PTXAS, UID, Python
from builder.model import ImagePin

_HOME_LAYER = "home"


def containerfile(pin: ImagePin, python: Python, *, with_packages: bool) -> str:
    """Its text; `with_packages` when the base still lacks what the recipe wants of its distribution."""
    from jinja2 import Environment, StrictUndefined

    template = resources.files("builder.image").joinpath("Containerfile.j2").read_text(encoding="utf-8")
    engine = Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701  no HTML
    owners = {_HOME_LAYER: f"{UID}:{UID}"}
    return engine.from_string(template).render(
        layers=[{"name": name, "owner": owners.get(name, "0:0"), "target": _target(name)} for name in LAYERS],
        packages=" ".join(pin.packages) if with_packages else "",
        snapshot=f"--snapshot {pin.snapshot}" if pin.snapshot else "",
        env=sorted(environment(pin, python).items()),
        user=f"{UID}:{UID}",
        home=HOME,
        port=PORT,
        health=[HEALTH],
        entrypoint=[ENTRYPOINT],
    )


def environment(pin: ImagePin, python: Python) -> dict[str, str]:
    """The image's variables. A base's LD_LIBRARY_PATH is emptied: torch finds its CUDA libraries by RPATH.

    With `jit`, CUDA_HOME names the compiler's wheels, so that FlashInfer can compile what its cache lacks.
    """
    compiler = {"CUDA_HOME": f"{python.site}/nvidia/cu13"} if pin.jit else {}
    return compiler | {
        "HOME": HOME,
        "LD_LIBRARY_PATH": "",
        "LOGNAME": "spark",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "PATH": f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPYCACHEPREFIX": f"{HOME}/.cache/pycache",
        "TRITON_PTXAS_BLACKWELL_PATH": PTXAS,
        "TRITON_PTXAS_PATH": PTXAS,
        "USER": "spark",
        "VIRTUAL_ENV": PREFIX,
    }


def healthcheck() -> dict[str, object]:
    """The same check as the Containerfile's, for configs of tools that leave it out; times in nanoseconds."""
    second = 1_000_000_000
    times = {"Interval": 30 * second, "Timeout": 10 * second, "StartPeriod": 1800 * second}
    return {"Test": ["CMD", HEALTH], **times, "Retries": 3}


def steps() -> list[str]:
    """One line of history a layer."""
    return [f"COPY {name}/ {_target(name)}" for name in LAYERS]


def _target(name: str) -> str:
    """A folder that is the user's is copied as itself, so that the folders above stay root's."""
    return f"{HOME}/" if name == _HOME_LAYER else "/"
