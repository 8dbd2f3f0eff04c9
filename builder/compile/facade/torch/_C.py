"""The one build fact that scripts read from torch's C module."""

from ._pinned import new_cxx_abi

_GLIBCXX_USE_CXX11_ABI = new_cxx_abi()
