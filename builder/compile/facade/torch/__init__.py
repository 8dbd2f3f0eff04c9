"""What build scripts may ask of torch, answered from the pinned target wheel (see ../README.md)."""

from __future__ import annotations

import re
from typing import Any

from . import _C, utils, version

__version__ = version.__version__


class dtype:  # noqa: N801  torch's own name
    """A dtype's name and size in bytes; build scripts map it to a C++ type."""

    def __init__(self, name: str) -> None:
        self.name = name
        bits = re.search(r"\d+", name)
        self.itemsize = max(1, int(bits[0]) // 8) if bits else 1

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

_SAME = {"half": "float16", "float": "float32", "double": "float64"}
_SAME |= {"short": "int16", "int": "int32", "long": "int64", "cfloat": "complex64", "cdouble": "complex128"}
_NAMES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
)
_dtypes = {name: dtype(name) for name in _NAMES.split()}
globals().update(_dtypes)
globals().update({name: _dtypes[full] for name, full in _SAME.items()})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    message = f"this build asks for torch.{name}, which the build-time stand-in does not know"
    raise AttributeError(message)


__all__ = ["Generator", "Tensor", "_C", "cuda", "device", "dtype", "utils", "version"]
