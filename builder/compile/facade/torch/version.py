"""The pinned torch's version facts."""

from ._pinned import constant

__version__: str = constant("version.py", "__version__")
cuda: str | None = constant("version.py", "cuda")
hip: str | None = constant("version.py", "hip")
xpu: str | None = constant("version.py", "xpu")
