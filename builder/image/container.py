"""The Containerfile of one image, from the checked-in template."""

from __future__ import annotations

from importlib import resources

from builder.model import ImagePin
from builder.verify.image.places import (
    COMMAND,
    ENTRYPOINT,
    GROUP_LINE,
    HEALTH,
    HEALTH_RETRIES,
    HEALTH_TIMES,
    HOME,
    LAYERS,
    PORT,
    USER,
    USER_ID,
    USER_LINE,
    Python,
    environment,
)

_HOME_LAYER = "home"


def containerfile(pin: ImagePin, python: Python, state: str, *, with_packages: bool) -> str:
    """Its text; `with_packages` when the base still lacks what the recipe wants of its distribution.

    `state` names what is installed, as `state_of` does.
    """
    from jinja2 import Environment, StrictUndefined

    template = resources.files("builder.image").joinpath("Containerfile.j2").read_text(encoding="utf-8")
    engine = Environment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)  # noqa: S701  no HTML
    owners = {_HOME_LAYER: USER_ID}
    return engine.from_string(template).render(
        layers=[{"name": name, "owner": owners.get(name, "0:0"), "target": _target(name)} for name in LAYERS],
        packages=" ".join(pin.packages) if with_packages else "",
        snapshot=_snapshot(pin),
        name=USER,
        users=[("/etc/passwd", USER_LINE), ("/etc/group", GROUP_LINE)],
        env=sorted(environment(pin, python, state).items()),
        user=USER_ID,
        home=HOME,
        port=PORT,
        times=HEALTH_TIMES,
        retries=HEALTH_RETRIES,
        health=[HEALTH],
        entrypoint=[ENTRYPOINT],
        command=COMMAND,
    )


def steps(pin: ImagePin, *, with_packages: bool) -> list[str]:
    """One line of history a layer."""
    packages = [f"RUN apt-get install {' '.join((_snapshot(pin), *pin.packages)).strip()}"] if with_packages else []
    return [*packages, *(f"COPY {name}/ {_target(name)}" for name in LAYERS)]


def _snapshot(pin: ImagePin) -> str:
    return f"--snapshot {pin.snapshot}" if pin.snapshot else ""


def _target(name: str) -> str:
    """A folder that is the user's is copied as itself, so that the folders above stay root's."""
    return f"{HOME}/" if name == _HOME_LAYER else "/"
