"""Where the pinned torch's CMake files are."""

from .._pinned import ROOT

cmake_prefix_path = str(ROOT / "share" / "cmake")
