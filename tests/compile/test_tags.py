import pytest

from builder.compile.tags import platform_tag
from builder.errors import WheelError
from builder.inspect import ElfFacts
from builder.manylinux import levels


def needs(*versions: str, machine: str = "aarch64", libs: tuple[str, ...] = ("libc.so.6",)) -> ElfFacts:
    return ElfFacts(
        machine=machine, needed=libs, versions=tuple(("symbol", version, "libc.so.6") for version in versions)
    )


def test_the_tag_is_the_lowest_level_that_has_every_symbol() -> None:
    assert platform_tag({"a.so": needs("GLIBC_2.17")}, "aarch64") == "manylinux_2_17_aarch64"
    assert (
        platform_tag({"a.so": needs("GLIBC_2.17"), "b.so": needs("GLIBC_2.34")}, "aarch64") == "manylinux_2_34_aarch64"
    )


def test_policies_come_from_auditwheel_in_order() -> None:
    names = [level.name for level in levels("aarch64")]
    assert names[0] == "manylinux_2_17"
    assert names.index("manylinux_2_28") < names.index("manylinux_2_35")


def test_a_symbol_newer_than_every_level_is_refused() -> None:
    with pytest.raises(WheelError, match="no manylinux level"):
        platform_tag({"a.so": needs("GLIBC_9.99")}, "aarch64")


def test_packed_relocations_need_a_loader_that_knows_them() -> None:
    """The linker asks for them by a version that no symbol has."""
    relr = ElfFacts("aarch64", needed=("libc.so.6",), versions=(("", "GLIBC_ABI_DT_RELR", "libc.so.6"),))
    assert platform_tag({"a.so": relr}, "aarch64") == "manylinux_2_36_aarch64"


def test_a_level_promises_no_more_glibc_than_its_name() -> None:
    """Policies have GLIBC_2.18 for the 2.17 of CentOS on aarch64; another system of that age has not."""
    assert platform_tag({"a.so": needs("GLIBC_2.18")}, "aarch64") == "manylinux_2_24_aarch64"


def test_an_object_of_the_wrong_machine_is_refused() -> None:
    with pytest.raises(WheelError, match="is for x86_64"):
        platform_tag({"a.so": needs(machine="x86_64")}, "aarch64")


def test_torch_and_cuda_libraries_need_no_bundling_and_strangers_are_refused() -> None:
    fine = needs(libs=("libtorch_cuda.so", "libcudart.so.13", "libcuda.so.1", "libc10.so", "libcublas.so.13"))
    assert platform_tag({"a.so": fine}, "aarch64") == "manylinux_2_17_aarch64"
    with pytest.raises(WheelError, match=r"needs libfoo\.so\.1"):
        platform_tag({"a.so": needs(libs=("libfoo.so.1",))}, "aarch64")
