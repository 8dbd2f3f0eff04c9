from __future__ import annotations

import pytest

from builder.errors import UsageError
from builder.inspect.devices import capability, chosen, device_facts, launches, loads
from builder.inspect.facts import ImageFacts, KernelFacts


@pytest.mark.parametrize(
    ("arch", "how"),
    [
        ("sm_120", "native"),
        ("sm_120f", "native"),
        ("sm_120a", "none"),
        ("sm_121", "native"),
        ("sm_121f", "native"),
        ("sm_121a", "native"),
        ("sm_100", "none"),
        ("sm_100f", "none"),
        ("sm_90", "none"),
        ("sm_80", "none"),
        ("nonsense", "none"),
    ],
)
def test_machine_code_on_12_1(arch: str, how: str) -> None:
    assert loads("sass", arch, (12, 1)) == how


@pytest.mark.parametrize(
    ("arch", "how"),
    [
        ("sm_52", "jit"),
        ("sm_90", "jit"),
        ("sm_90a", "none"),
        ("sm_100f", "none"),
        ("sm_120", "jit"),
        ("sm_120f", "jit"),
        ("sm_120a", "none"),
        ("sm_121", "jit"),
        ("sm_121a", "jit"),
        ("sm_130", "none"),
    ],
)
def test_ptx_on_12_1(arch: str, how: str) -> None:
    assert loads("ptx", arch, (12, 1)) == how


@pytest.mark.parametrize(
    ("arch", "device", "how"),
    [
        ("sm_80", (8, 6), "native"),
        ("sm_86", (8, 0), "none"),
        ("sm_80", (8, 7), "none"),
        ("sm_87", (8, 7), "native"),
        ("sm_100f", (10, 3), "native"),
        ("sm_121", (12, 0), "none"),
        ("sm_121f", (12, 0), "none"),
    ],
)
def test_other_devices(arch: str, device: tuple[int, int], how: str) -> None:
    assert loads("sass", arch, device) == how


def image(kind: str, arch: str, container: int, *names: str) -> ImageFacts:
    kernels = tuple(KernelFacts(name, kind, arch, container) for name in names)
    return ImageFacts(kind, arch, "", "none", container, 0, kernels)


def test_the_driver_takes_machine_code_before_ptx_and_the_newest_first() -> None:
    images = [
        image("ptx", "sm_121", 0),
        image("sass", "sm_120", 0),
        image("sass", "sm_120f", 0),
        image("sass", "sm_80", 0),
    ]
    best = chosen(images, (12, 1))
    assert best is not None
    assert (best.kind, best.arch) == ("sass", "sm_120f")
    assert chosen(images[:1] + images[3:], (12, 1)) is images[0]
    assert chosen(images[3:], (12, 1)) is None


def test_a_kernel_of_another_device_only_is_none_even_beside_ptx() -> None:
    images = [
        image("sass", "sm_120", 0, "both"),
        image("sass", "sm_100", 0, "both", "only_100"),
        image("ptx", "sm_80", 1, "late"),
        image("sass", "sm_80", 1, "late"),
    ]
    ways = {name: how for (_, name), (how, _) in launches(images, (12, 1)).items()}
    assert ways == {"both": "native", "only_100": "none", "late": "jit"}


def test_the_same_kernel_in_two_containers_is_launched_from_each() -> None:
    images = [image("sass", "sm_120", 0, "shared"), image("sass", "sm_80", 1, "shared")]
    facts = device_facts(images, (12, 1))
    assert (facts.native, facts.jit, facts.none) == (1, 0, 1)


@pytest.mark.parametrize("text", ["12", "sm_121", "12.1a", ""])
def test_a_device_is_written_as_its_capability(text: str) -> None:
    with pytest.raises(UsageError, match="no device"):
        capability(text)
