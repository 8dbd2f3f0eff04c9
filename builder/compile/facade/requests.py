"""Stands in for `requests`: a generator of build files has nothing to download."""

from __future__ import annotations

from typing import NoReturn


class Session:
    """Only an annotation here."""


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    message = f"the build asks for requests.{name}: nothing is downloaded while build files are made"
    raise AttributeError(message)
