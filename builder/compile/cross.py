"""What CMake must be told to build for another machine than this one."""

from __future__ import annotations

import sys

from builder.compile.host import AS_NAMED
from builder.compile.toolchain import Toolchain


def cmake_toolchain(toolchain: Toolchain) -> str:
    """The text of a CMake toolchain file. FindPython may run the host's Python through `env`."""
    nvcc = toolchain.cuda_home / "bin" / "nvcc"
    values = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": toolchain.machine,
        "CMAKE_C_COMPILER": toolchain.compilers.cc,
        "CMAKE_CXX_COMPILER": toolchain.compilers.cxx,
        "CMAKE_CUDA_COMPILER": nvcc,
        "CMAKE_CUDA_HOST_COMPILER": toolchain.compilers.cxx,
        "CMAKE_CROSSCOMPILING_EMULATOR": "/usr/bin/env",
    }
    return "".join(f'set({name} "{value}")\n' for name, value in values.items())


def cmake_arguments(toolchain: Toolchain) -> dict[str, str]:
    """CMake variables, beside the toolchain file, that find the target's torch and CUDA, and name headers steadily."""
    home = toolchain.cuda_home
    return {
        "CMAKE_C_FLAGS": AS_NAMED,
        "CMAKE_CXX_FLAGS": AS_NAMED,
        "CMAKE_CUDA_FLAGS": f"-Xcompiler={AS_NAMED}",
        "Torch_DIR": str(toolchain.torch_dir / "share/cmake/Torch"),
        "Caffe2_DIR": str(toolchain.torch_dir / "share/cmake/Caffe2"),
        "CUDA_TOOLKIT_ROOT_DIR": str(home),
        "CUDAToolkit_ROOT": str(home),
        "CUDA_TOOLKIT_INCLUDE": str(home / "include"),
        "CUDA_CUDART_LIBRARY": str(home / "lib64/libcudart.so"),
        "Python_ROOT_DIR": sys.base_prefix,
        "Python_INCLUDE_DIR": str(toolchain.headers),
    }
