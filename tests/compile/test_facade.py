import subprocess
import sys
from pathlib import Path

import pytest

import builder.compile as compiling

FACADE = Path(compiling.__file__).parent / "facade"


@pytest.fixture
def torch_dir(tmp_path: Path) -> Path:
    files = {
        "version.py": "__version__ = '2.11.0+cu130'\ncuda: str = '13.0'\nhip = None\nxpu = None\n",
        "utils/cpp_extension.py": "import os\nCOMMON_NVCC_FLAGS = ['-DA', '--b']\n",
        "share/cmake/Torch/TorchConfig.cmake": 'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")\n',
    }
    for name, text in files.items():
        (tmp_path / "torch" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torch" / name).write_text(text)
    return tmp_path / "torch"


def ask(code: str, torch_dir: Path) -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(FACADE), "SPARK_TORCH_DIR": str(torch_dir), "CUDA_HOME": "/cuda"}
    return subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=False)


def test_build_questions_are_answered_from_the_pinned_wheel(torch_dir: Path) -> None:
    code = (
        "import torch; from torch.utils.cpp_extension import CUDA_HOME, COMMON_NVCC_FLAGS as f;"
        "print(torch.__version__, torch.version.cuda, torch._C._GLIBCXX_USE_CXX11_ABI, CUDA_HOME, f,"
        "torch.utils.cmake_prefix_path, torch.bfloat16, torch.half is torch.float16, torch.float32.itemsize)"
    )
    said = ask(code, torch_dir)
    assert said.stdout.split("\n")[0] == (
        f"2.11.0+cu130 13.0 True /cuda ['-DA', '--b'] {torch_dir}/share/cmake torch.bfloat16 True 4"
    ), said.stderr


def test_any_other_question_is_refused_by_name(torch_dir: Path) -> None:
    said = ask("import torch; torch.matmul", torch_dir)
    assert said.returncode == 1
    assert "asks for torch.matmul, which the build-time stand-in does not know" in said.stderr


def test_generators_cannot_download(torch_dir: Path) -> None:
    said = ask("import requests; requests.get", torch_dir)
    assert "nothing is downloaded while build files are made" in said.stderr
