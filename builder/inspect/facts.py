"""What inspect finds, as frozen records; the JSON contract is made of these and nothing else.

A kernel is counted once per image that holds it; `container` says which fatbin of the object
the image belongs to, because the driver chooses one image per container.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from builder.finding import Finding

Level = Literal["arch", "sass", "all"]
"""How much is read: headers, every machine instruction, or every PTX text besides.

At "sass", PTX that has machine code of its own architecture in its container is not unpacked: one run of nvcc made
both, and the facts are those of the machine code. benchmarks/agreement.py --twins holds the two against each other.
"""

CLASSES: tuple[str, ...] = (
    "OMMA",
    "QMMA",
    "HMMA",
    "IMMA",
    "HGMMA",
    "IGMMA",
    "QGMMA",
    "UTCMMA",
    "F2FP.E2M1",
    "F2FP.FP8",
    "BPT.TRAP",
)
"""Instruction classes that are counted, in the order of every counts tuple.

OMMA is block-scaled FP4, QMMA 8-bit float (and mixed FP8/FP6/FP4) MMA, HMMA 16-bit and TF32, IMMA integer;
HGMMA, IGMMA and QGMMA are their warp-group forms of 9.0, UTCMMA the tcgen05 tensor memory MMA of 10.x and 11.0;
F2FP.E2M1 is a convert to or from FP4, F2FP.FP8 one to or from E4M3 or E5M2, BPT.TRAP a trap or a breakpoint. In PTX
they stand for the instructions that ptxas turns into these.
"""

Counts = tuple[int, ...]
"""One number per entry of CLASSES."""

NO_COUNTS: Counts = (0,) * len(CLASSES)


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """One kernel in one image. `kind` is sass or ptx, `arch` exact (`sm_120f`, and `sm_80` for PTX too)."""

    name: str
    kind: str
    arch: str
    container: int
    counts: Counts = NO_COUNTS
    trap_only: bool = False
    empty: bool = False

    def instructions(self) -> dict[str, int]:
        """Counts by class name."""
        return dict(zip(CLASSES, self.counts, strict=True))


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """One fatbin entry or bare cubin. `size` is what it takes in the file, in bytes; `version` PTX's, or the ABI's.

    `kernels` is None when only headers were read (level "arch"); `functions` counts the instructions of device
    functions that are part of no kernel.
    """

    kind: str
    arch: str
    version: str
    compression: str
    container: int
    size: int
    kernels: tuple[KernelFacts, ...] | None = None
    functions: Counts = NO_COUNTS


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """All images of an object of one kind, architecture and compression, added up."""

    kind: str
    arch: str
    compression: str
    images: int
    kernels: int | None
    trap_only: int | None
    empty: int | None
    instructions: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """How many kernels run as machine code, are compiled at load, or cannot run at all."""

    native: int
    jit: int
    none: int


@dataclass(frozen=True, slots=True)
class ElfFacts:
    """A host ELF file's link facts. `glibc` and its siblings are the newest version needed, or empty.

    `undefined` holds the names that must be found at load, without weak ones, which may stay unresolved. `bare` is a
    file without sections, of which nothing else is known.
    """

    machine: str
    bare: bool = False
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    glibc: str = ""
    glibcxx: str = ""
    cxxabi: str = ""
    undefined: tuple[str, ...] = ()
    exported: tuple[str, ...] = ()
    versions: tuple[tuple[str, str, str], ...] = ()
    """(symbol, version, library) of every versioned symbol that the file needs; no symbol where a version stands alone.
    """


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """One .so, .o, cubin, fatbin or PTX file; `path` is relative to the wheel or folder it is in."""

    path: str
    size: int
    elf: ElfFacts
    images: tuple[ImageFacts, ...] = ()
    code: tuple[CodeFacts, ...] = ()
    devices: dict[str, DeviceFacts] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[KernelFacts, ...]:
        """Every kernel of every image; empty at level "arch"."""
        return tuple(kernel for image in self.images for kernel in image.kernels or ())


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What a wheel says of itself. `tags` as in its file name; `glibc_tag` is `2.35` of manylinux_2_35."""

    name: str
    version: str
    tags: tuple[str, ...]
    dist_info: str
    glibc_tag: str
    sizes: dict[str, int] = field(default_factory=dict)
    """Unpacked bytes by top folder (or top-level file)."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One inspected file. `findings` are contradictions inside it, such as a RECORD that is wrong."""

    path: str
    sha256: str
    size: int
    wheel: WheelFacts | None = None
    objects: tuple[ObjectFacts, ...] = ()
    findings: tuple[Finding, ...] = ()
