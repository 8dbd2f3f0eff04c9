"""Which kernels run on a device as they are, which are compiled at load, and which cannot run.

NVIDIA's documented compatibility rules: machine code runs within its major version on the same or a
later minor one; the f suffix keeps it to its family, which is that same range; the a suffix ties it to exactly
one device, and so does machine code for Tegra before GB10. PTX is compiled for any later device, with f within the
family, with a only on exactly its own. The driver picks one image per fatbin container.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from builder.errors import UsageError
from builder.inspect.facts import DeviceFacts, ImageFacts, KernelFacts

How = Literal["native", "jit", "none"]
Capability = tuple[int, int]

_ARCH = re.compile(r"(?:sm|compute)_(\d+)(\d)([af]?)")
_NUMBER = re.compile(r"\D")
_DEVICE = re.compile(r"(\d{1,2})\.(\d)")
_TEGRA = {(5, 3), (6, 2), (7, 2), (8, 7)}


def capability(text: str) -> Capability:
    """`12.1` → (12, 1). Raises UsageError with the accepted form."""
    match = _DEVICE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no device", expected="a compute capability such as 12.1")
    return int(match[1]), int(match[2])


def number(arch: str) -> int:
    """120 of `sm_120f`, 80 of `compute_80`; 0 where there is none."""
    return int(_NUMBER.sub("", arch) or 0)


def loads(kind: str, arch: str, device: Capability) -> How:
    """How the driver of `device` takes an image of this kind (sass, ptx) and exact architecture."""
    match = _ARCH.fullmatch(arch)
    if match is None:
        return "none"
    built, suffix = (int(match[1]), int(match[2])), match[3]
    family = built[0] == device[0] and built <= device
    if kind == "ptx":
        fits = built == device if suffix == "a" else family if suffix == "f" else built <= device
        return "jit" if fits else "none"
    exact = suffix == "a" or built in _TEGRA or device in _TEGRA
    return "native" if (built == device if exact else family) else "none"


def chosen(images: Iterable[ImageFacts], device: Capability) -> ImageFacts | None:
    """The image of one container that the driver takes: machine code first, then the newest."""
    ranked = [
        (how == "native", _rank(image.arch), image)
        for image in images
        if (how := loads(image.kind, image.arch, device)) != "none"
    ]
    return max(ranked, key=lambda entry: entry[:2])[2] if ranked else None


def _rank(arch: str) -> tuple[int, int]:
    match = _ARCH.fullmatch(arch)
    return (number(arch), "fa".find(match[3]) if match[3] else -1) if match else (0, 0)


def launches(images: Sequence[ImageFacts], device: Capability) -> dict[tuple[int, str], tuple[How, KernelFacts]]:
    """(container, kernel name) → how it runs there, and the kernel in the image that is taken.

    A kernel that no loadable image holds is "none", with its facts from any image that has it.
    """
    groups: dict[int, list[ImageFacts]] = defaultdict(list)
    for image in images:
        groups[image.container].append(image)
    found: dict[tuple[int, str], tuple[How, KernelFacts]] = {}
    for container, group in groups.items():
        for image in group:
            found |= {(container, kernel.name): ("none", kernel) for kernel in image.kernels or ()}
        best = chosen(group, device)
        if best is not None:
            how = loads(best.kind, best.arch, device)
            found |= {(container, kernel.name): (how, kernel) for kernel in best.kernels or ()}
    return found


def device_facts(images: Sequence[ImageFacts], device: Capability) -> DeviceFacts:
    """Kernels of an object by how they run on `device`."""
    ways = [how for how, _ in launches(images, device).values()]
    return DeviceFacts(native=ways.count("native"), jit=ways.count("jit"), none=ways.count("none"))


def all_devices(images: Sequence[ImageFacts], devices: Iterable[str]) -> Mapping[str, DeviceFacts]:
    """`device_facts` for each device, by its text."""
    return {device: device_facts(images, capability(device)) for device in devices}
