"""What build scripts may ask of torch, answered from the pinned target wheel (see ../README.md)."""

from __future__ import annotations

from typing import Any

from . import _C, utils, version

__version__ = version.__version__


class dtype:  # noqa: N801  torch's own name
    """A dtype's name; build scripts only map it to a C++ type."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class device:  # noqa: N801  torch's own name
    """Only an annotation here."""


class Tensor:
    """Only an annotation here."""


class Generator:
    """Only an annotation here."""


class _NoDevices:
    """`torch.cuda` on a build machine: there is nothing to query."""

    class Stream:
        """Only an annotation here."""

    @staticmethod
    def is_available() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return 0


cuda = _NoDevices

bool = dtype("bool")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
float16 = half = dtype("float16")
bfloat16 = dtype("bfloat16")
float32 = float = dtype("float32")
float64 = dtype("float64")
float8_e4m3fn = dtype("float8_e4m3fn")
float8_e5m2 = dtype("float8_e5m2")
float8_e8m0fnu = dtype("float8_e8m0fnu")
float4_e2m1fn_x2 = dtype("float4_e2m1fn_x2")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    message = f"this build asks for torch.{name}, which the build-time stand-in does not know"
    raise AttributeError(message)


__all__ = ["Generator", "Tensor", "_C", "cuda", "device", "dtype", "utils", "version"]
