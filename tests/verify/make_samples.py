"""Makes tests/verify/samples with the system's gcc: libraries whose exported names are all that matters.

python tests/verify/make_samples.py
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RUNTIME = (
    *("__cudaGetKernel", "__cudaInitModule", "__cudaLaunchKernel", "__cudaPopCallConfiguration"),
    *("__cudaPushCallConfiguration", "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd"),
    *("__cudaRegisterFunction", "__cudaUnregisterFatBinary", "cudaGetDeviceCount"),
)
LIBRARIES = {
    "libcudart.so.13": RUNTIME,
    "libdriverless.so": (),
}


def make(name: str, exports: tuple[str, ...], work: Path) -> None:
    """A shared library with that soname and those functions; `libdriverless.so` calls the driver without asking it."""
    calls = "int cuInit(unsigned); int run(void) { return cuInit(0); }\n" if name == "libdriverless.so" else ""
    (work / "stub.c").write_text(calls + "".join(f"int {export}(void) {{ return 0; }}\n" for export in exports))
    order = ["gcc", "-shared", "-fPIC", "-O1", "-s", "-nostdlib", f"-Wl,-soname,{name}", "-o", name, "stub.c"]
    subprocess.run(order, cwd=work, check=True)
    (HERE / "samples" / name).write_bytes((work / name).read_bytes())


if __name__ == "__main__":
    (HERE / "samples").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for library, exports in LIBRARIES.items():
            make(library, exports, Path(folder))
