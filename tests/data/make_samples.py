"""Makes the committed samples in tests/data/samples with the pinned compiler.

    python tests/data/make_samples.py [--cuda-home DIR] [NAME…]

Without --cuda-home, nvcc 13.0.88 and its parts are taken from the package index with pip. The host
compiler is the system's gcc, for x86_64. Names narrow what is made. Samples are committed because the tests must run
where no compiler is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SOURCES, SAMPLES = HERE / "src", HERE / "samples"
LARGEST = 60_000
PINS = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
)


@dataclass(frozen=True)
class Sample:
    """A file to make: its name, the source and the compiler's arguments."""

    name: str
    source: str
    arguments: tuple[str, ...]

    @property
    def host_only(self) -> bool:
        return not self.source.endswith(".cu")


def sass(arch: str) -> str:
    """-gencode for machine code alone."""
    return f"-gencode=arch=compute_{arch},code=sm_{arch}"


def ptx(arch: str) -> str:
    """-gencode for PTX alone."""
    return f"-gencode=arch=compute_{arch},code=compute_{arch}"


SHARED = ("-shared", "-cudart=shared", "-Xcompiler=-fPIC")
HOST = ("-shared", "-fPIC", "-O1", "-s")
SAMPLE_LIST = (
    # the same kernel for sm_120, sm_120f, sm_120a: only the f and a tell them apart
    *(Sample(f"scale_sm_{arch}.cubin", "scale.cu", ("-cubin", f"-arch=sm_{arch}")) for arch in ("120", "120f", "120a")),
    *(Sample(f"scale_sm_{arch}.o", "scale.cu", ("-c", sass(arch))) for arch in ("120", "120f")),
    # bodies guarded by __CUDA_ARCH__ == 1200
    *(Sample(f"guard_sm_{arch}.o", "guard.cu", ("-c", sass(arch))) for arch in ("120", "121a")),
    Sample("guard_ptx_121a.o", "guard.cu", ("-c", ptx("121a"))),
    *(
        Sample(f"flow_sm_{arch}.cubin", "flow.cu", ("-cubin", f"-arch=sm_{arch}"))
        for arch in ("75", "80", "90a", "121a")
    ),
    # refused at run time, with a breakpoint
    *(
        Sample(f"refuse_sm_{arch}.cubin", "refuse.cu", ("-cubin", f"-arch=sm_{arch}"))
        for arch in ("80", "90a", "120", "121a")
    ),
    Sample("refuse_ptx_121a.ptx", "refuse.cu", ("-ptx", "-arch=compute_121a")),
    # refused with a message alone
    *(Sample(f"prints_sm_{arch}.cubin", "prints.cu", ("-cubin", f"-arch=sm_{arch}")) for arch in ("80", "90", "121a")),
    Sample("prints_ptx_121a.ptx", "prints.cu", ("-ptx", "-arch=compute_121a")),
    # instruction classes by architecture
    *(Sample(f"mma_sm_{arch}.cubin", "mma.cu", ("-cubin", f"-arch=sm_{arch}")) for arch in ("75", "80", "89")),
    Sample("mma_sm_90a.cubin", "mma.cu", ("-cubin", "-arch=sm_90a", "-DWARP_GROUP")),
    Sample("mma_sm_100a.cubin", "mma.cu", ("-cubin", "-arch=sm_100a", "-DTENSOR_MEMORY")),
    *(
        Sample(f"mma_sm_{arch}.cubin", "mma.cu", ("-cubin", f"-arch=sm_{arch}", "-DBLOCK_SCALED"))
        for arch in ("120f", "121a")
    ),
    Sample("mma_ptx_121a.ptx", "mma.cu", ("-ptx", "-arch=compute_121a", "-DBLOCK_SCALED")),
    # compression, containers and kinds
    Sample("launch_zstd.so", "launch.cu", (*SHARED, "-compress-mode=size", sass("80"), sass("121a"), ptx("80"))),
    Sample("launch_lz4.so", "launch.cu", (*SHARED, "-compress-mode=speed", sass("80"), sass("121a"), ptx("80"))),
    Sample("launch_plain.so", "launch.cu", (*SHARED, "-compress-mode=none", sass("80"), sass("121a"), ptx("80"))),
    Sample("launch_ptx.so", "launch.cu", (*SHARED, ptx("120f"))),
    Sample("launch_sm_75.so", "launch.cu", (*SHARED, sass("75"))),
    Sample("relocatable.o", "flow.cu", ("-dc", sass("121a"))),
    Sample("scale.fatbin", "scale.cu", ("-fatbin", sass("90"), sass("120f"), ptx("120a"))),
    # host facts
    Sample("nothing.so", "host.c", HOST),
    Sample("undefined.so", "undefined.cpp", HOST),
    Sample("cudart12.so", "cudart.c", (*HOST, "-L.", "-lcudart12")),
    Sample("glibc.so", "glibc.c", HOST),
    Sample("carried.so", "carried.c", (*HOST, "-nostdlib", f"-Wa,-I{SAMPLES}")),
    Sample("throws.so", "throws.cpp", (*HOST, "-lstdc++", "-Wl,-rpath,$ORIGIN/../lib:$ORIGIN/nvidia/cu13/lib")),
)


def fetch_toolkit(folder: Path) -> Path:
    """A CUDA_HOME of the pinned wheels. nvcc finds its root from its own folder, so that folder is a real one."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *PINS]
    subprocess.run(command, check=True)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    home = folder / "nvidia" / "cu13"
    for tool in [*(home / "bin").iterdir(), *(home / "nvvm" / "bin").iterdir()]:
        tool.chmod(0o755)
    (home / "lib64").symlink_to("lib")
    for library in (home / "lib").glob("*.so.*"):
        library.with_name(library.name.partition(".so.")[0] + ".so").symlink_to(library.name)
    return home


def make(sample: Sample, home: Path, work: Path) -> None:
    """Compile in `work` (relative names keep paths out of the bytes) and keep the result."""
    compiler = [str(home / "bin" / "nvcc"), "-frandom-seed=1"] if not sample.host_only else ["gcc"]
    source = work / sample.source
    source.write_bytes((SOURCES / sample.source).read_bytes())
    order = [*compiler, "-o", sample.name, sample.source, *sample.arguments]
    subprocess.run(order, cwd=work, check=True)
    result = work / sample.name
    if sample.name.endswith((".so", ".o")):
        subprocess.run(["strip", "--strip-unneeded", sample.name], cwd=work, check=True)
    if result.stat().st_size > LARGEST:
        raise SystemExit(f"{sample.name} is {result.stat().st_size} B, more than {LARGEST} B")
    (SAMPLES / sample.name).write_bytes(result.read_bytes())


def stub_cudart(work: Path) -> None:
    """A libcudart.so.12 to link to: only its name matters."""
    (work / "stub.c").write_text("int cudaGetDeviceCount(int *count) { return *count = 0; }\n")
    order = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", "libcudart12.so", "stub.c"]
    subprocess.run(order, cwd=work, check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda-home", type=Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    SAMPLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        home = asked.cuda_home or fetch_toolkit(work)
        stub_cudart(work)
        for sample in SAMPLE_LIST:
            if not asked.names or sample.name in asked.names:
                make(sample, home, work)


if __name__ == "__main__":
    main()
