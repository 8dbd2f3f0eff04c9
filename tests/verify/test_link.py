"""CASES 6, 7 and 9: what the loader needs, held against the tag, the recipe and the pinned wheels."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from builder.context import Context
from builder.inspect import inspect_path
from builder.model import LockedFile, Package
from builder.verify import Exempt, Expectations, examine, for_device
from builder.verify.link import link_faults, promised
from builder.verify.providers import shelf_of
from builder.verify.sources import defined_in, hint_from, identifier
from builder.verify.symbols import Provider, Shelf, symbol_faults, unresolved
from tests.verify.conftest import SAMPLES, STUBS, Judge, MakeWheel, keep_wheel, only, rules, sample, stub

MISSING = "_ZN4vllm23cutlass_scaled_mm_sm120EiPKf"


def test_an_object_of_the_host(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    verdict = judge_file(make_wheel(), replace(wanted, machine="aarch64"))
    assert rules(verdict) == ["machine", "wheel-tags"] or rules(verdict) == ["wheel-tags", "machine"]
    assert "it is for x86_64, the recipe is for aarch64" in [f.message for f in verdict.findings]


def test_an_object_of_another_machine_than_the_tag(make_wheel: MakeWheel, judge_file: Judge) -> None:
    path = make_wheel()
    assert judge_file(path, for_device("12.1")).good
    other = path.with_name(path.name.replace("x86_64", "aarch64"))
    path.rename(other)
    messages = [f.message for f in judge_file(other, for_device("12.1")).findings if f.rule == "machine"]
    assert messages == ["it is for x86_64, the wheel's tag is for aarch64"]


@pytest.mark.parametrize(
    "name",
    [
        *("demo.libs/libcudart-0d1e2f.so.13", "demo/libtorch_cpu.so", "demo/libcuda.so.1", "demo/libcutensor.so.2"),
        *("demo/libnvvm.so.4", "demo/libnvfatbin.so.13", "demo/libcusparseLt.so.0", "demo/libcudnn_graph.so.9"),
    ],
)
def test_a_bundled_library(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, name: str) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), name: sample("nothing.so")})
    assert "the user's own installation must give" in only(judge_file(path, wanted), "bundled")


@pytest.mark.parametrize("name", ["libcurl.so.4", "libcups.so.2", "libcurses.so.6", "libcunit.so.1"])
def test_a_library_that_only_begins_like_one_of_cuda(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations, name: str
) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), f"demo.libs/{name}": sample("nothing.so")})
    assert judge_file(path, wanted).good


def test_a_bundled_library_under_another_file_name(
    make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations
) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo/innocent.so": stub("libcudart.so.13")})
    only(judge_file(path, wanted), "bundled")


def test_another_cuda_major(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    path = make_wheel({"demo/_C.so": sample("cudart12.so")})
    message = only(judge_file(path, wanted), "cuda-major")
    assert message == "it needs libcudart.so.12, of CUDA 12, in a wheel of CUDA 13"


@pytest.mark.parametrize(
    ("library", "major"),
    [
        ("libcudart.so.11.0", "11"),
        ("libcudart.so.11.8.89", "11"),
        ("libcudart-0d1e2f3a.so.12", "12"),
        ("libnvfatbin.so.12", "12"),
        ("libcublasLt.so.13", ""),
        ("libnvvm.so.4", ""),
        ("libcusolver.so.12", ""),
        ("libcurl.so.4", ""),
        (f"libcudart.so.{'9' * 5000}", "999999999"),
    ],
)
def test_the_major_version_in_a_library_name(library: str, major: str) -> None:
    file = inspect_path(SAMPLES / "launch_zstd.so")
    (found,) = file.objects
    needing = replace(file, objects=(replace(found, elf=replace(found.elf, needed=(library,))),))
    faults = list(link_faults(needing, Expectations("12.1", cuda_major="13")))
    told = [f"it needs {library}, of CUDA {major}, in a wheel of CUDA 13"] if major else []
    assert [fault.message for fault in faults] == told


def test_two_cuda_majors_in_one_wheel_without_a_recipe(make_wheel: MakeWheel, judge_file: Judge) -> None:
    path = make_wheel({"demo/_C.so": sample("launch_zstd.so"), "demo/old.so": sample("cudart12.so")})
    assert "libcudart.so.12" in only(judge_file(path, Expectations("12.1")), "cuda-major")


def test_majors_beyond_all_numbers_without_a_recipe() -> None:
    file = inspect_path(SAMPLES / "launch_zstd.so")
    (found,) = file.objects
    needed = ("libcudart.so.13", f"libcudart.so.{'9' * 5000}")
    needing = replace(file, objects=(replace(found, elf=replace(found.elf, needed=needed)),))
    assert [f.message[:26] for f in link_faults(needing, Expectations("12.1"))] == ["it needs libcudart.so.13, "]


def test_a_tag_that_promises_too_old_a_glibc(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    files = {"demo/_C.so": sample("glibc.so")}
    assert judge_file(make_wheel(files, tag="cp312-cp312-manylinux_2_34_x86_64"), wanted).good
    message = only(judge_file(make_wheel(files, tag="cp312-cp312-manylinux_2_28_x86_64"), wanted), "glibc")
    assert (
        "promises glibc 2.28 or newer, and libc.so.6 of that age lacks 1 in all: pthread_create@GLIBC_2.34" in message
    )


def test_a_tag_that_promises_nothing(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    verdict = judge_file(make_wheel(tag="cp312-cp312-linux_x86_64"), wanted)
    assert "promises no glibc, and it needs 2.2.5" in only(verdict, "glibc")


@pytest.mark.parametrize(
    ("version", "glibc", "machine", "there"),
    [
        ("GLIBC_2.33", "2.33", "x86_64", True),  # between the levels 2_31 and 2_34
        ("GLIBC_2.32", "2.33", "aarch64", True),
        ("GLIBC_2.34", "2.33", "x86_64", False),
        ("GLIBC_2.2.5", "2.5", "x86_64", True),
        ("GLIBC_2.42", "2.42", "aarch64", True),  # above every level
        ("GLIBC_2.43", "2.42", "aarch64", False),
        ("GLIBC_2.17", "2.12", "aarch64", False),  # below every level
        ("GLIBC_PRIVATE", "2.42", "x86_64", False),
        (f"GLIBC_{'9' * 5000}", "2.42", "x86_64", False),
        (f"GLIBC_2.{'0' * 5000}99", "2.42", "x86_64", False),
        ("GLIBC_2.17", f"2.{'9' * 5000}", "x86_64", True),
        ("GLIBC_ABI_DT_RELR", "2.36", "aarch64", True),  # packed relocations
        ("GLIBC_ABI_DT_RELR", "2.35", "aarch64", False),
        ("GLIBCXX_3.4.30", "2.34", "aarch64", False),
        ("GLIBCXX_3.4.30", "2.35", "aarch64", True),
        ("GLIBCXX_3.4.30", "2.12", "aarch64", False),
        ("GLIBCXX_3.4.17", "2.12", "aarch64", True),
        ("OPENSSL_3.0.0", "2.12", "aarch64", True),  # not of the system: the rule `library` asks for it
    ],
)
def test_what_a_tag_promises(version: str, glibc: str, machine: str, *, there: bool) -> None:
    assert promised(version, glibc, machine) is there


def test_a_folder_of_the_machine_that_built_it() -> None:
    """As a library keeps it that is taken from a build tree: anyone can make that folder where it is installed."""
    file = inspect_path(SAMPLES / "launch_zstd.so")
    (found,) = file.objects
    paths = ("$ORIGIN", "${ORIGIN}/../lib", "/var/tmp/build/lib64", "lib")  # noqa: S108
    looking = replace(file, objects=(replace(found, elf=replace(found.elf, rpath=paths)),))
    faults = list(link_faults(looking, Expectations("12.1", strict=True)))
    assert [(f.rule, f.about) for f in faults] == [("rpath", paths[2]), ("rpath", paths[3])]
    assert not list(link_faults(looking, Expectations("12.1")))


def test_an_empty_part_of_a_search_path_is_the_folder_that_the_program_is_started_in(tmp_path: Path) -> None:
    data = sample("throws.so")
    (tmp_path / "throws.so").write_bytes(data.replace(b"/../lib:$", b"/../li::$"))
    file = inspect_path(tmp_path / "throws.so")
    assert file.objects[0].elf.rpath == ("$ORIGIN/../li", "", "$ORIGIN/nvidia/cu13/lib")
    (fault,) = link_faults(file, Expectations("12.1", strict=True))
    assert (fault.rule, fault.about) == ("rpath", "the one it is started in (an empty part)")


def test_a_version_that_no_symbol_has(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    """A linker that packs relocations asks for GLIBC_ABI_DT_RELR, and an older loader refuses the library for it."""
    data = sample("glibc.so")
    at = data.index(struct.pack("<I", 0x69691B4))  # the hash of GLIBC_2.34, where the table of needed versions has it
    alone = data[: at + 6] + struct.pack("<H", 0x7F) + data[at + 8 :]  # the same entry, of another number
    verdict = judge_file(make_wheel({"demo/_C.so": alone}, tag="cp312-cp312-manylinux_2_28_x86_64"), wanted)
    assert only(verdict, "glibc").endswith("lacks 1 in all: GLIBC_2.34")


def test_a_tag_between_two_levels(make_wheel: MakeWheel, judge_file: Judge, wanted: Expectations) -> None:
    data = sample("glibc.so")
    files = {"demo/_C.so": data.replace(b"GLIBC_2.34", b"GLIBC_2.33")}
    assert judge_file(make_wheel(files, tag="cp312-cp312-manylinux_2_33_x86_64"), wanted).good
    verdict = judge_file(make_wheel(files, tag="cp312-cp312-manylinux_2_32_x86_64"), wanted)
    assert "pthread_create@GLIBC_2.33" in only(verdict, "glibc")


def test_symbols_of_the_pinned_wheels_close(
    make_wheel: MakeWheel, wanted: Expectations, pins: tuple[LockedFile, ...], context: Context
) -> None:
    assert examine(make_wheel(), wanted, context, pins)[0].good


def test_a_symbol_that_nobody_defines(
    make_wheel: MakeWheel, wanted: Expectations, pins: tuple[LockedFile, ...], context: Context
) -> None:
    path = make_wheel({"demo/_C.so": sample("undefined.so")})
    message = only(examine(path, wanted, context, pins)[0], "symbol")
    assert message == "undefined, and nobody defines: 1 in all: vllm::cutlass_scaled_mm_sm120(int, float const*)"


def test_a_symbol_whose_owner_was_skipped(
    make_wheel: MakeWheel, wanted: Expectations, pins: tuple[LockedFile, ...], context: Context
) -> None:
    path = make_wheel({"demo/_C.so": sample("undefined.so")})
    verdict, _ = examine(path, wanted, context, pins, lambda name: f"a.cu defines {len(name)}")
    assert f"(a.cu defines {len(MISSING)})" in only(verdict, "symbol")


def test_an_exception_for_one_symbol(
    make_wheel: MakeWheel, wanted: Expectations, pins: tuple[LockedFile, ...], context: Context
) -> None:
    exempt = (Exempt("demo/_C.so", "symbol", "loaded by hand", "*cutlass_scaled_mm_sm120*"),)
    path = make_wheel({"demo/_C.so": sample("undefined.so")})
    assert examine(path, replace(wanted, exempt=exempt), context, pins)[0].good


def test_a_library_that_nobody_has(
    make_wheel: MakeWheel, wanted: Expectations, pins: tuple[LockedFile, ...], context: Context
) -> None:
    path = make_wheel({"demo/_C.so": sample("cudart12.so")})
    verdict, _ = examine(path, wanted, context, pins)
    assert sorted(rules(verdict)) == ["cuda-major", "library", "symbol"]


def test_a_library_of_the_wheel_itself_counts_only_when_it_is_needed() -> None:
    driverless = inspect_path(STUBS / "libdriverless.so").objects[0]
    assert unresolved(driverless, [driverless], Shelf()) == {"cuInit"}  # it does not name libcuda.so.1
    (runtime,) = inspect_path(STUBS / "libcudart.so.13").objects
    (launch,) = inspect_path(SAMPLES / "launch_zstd.so").objects
    assert unresolved(launch, [launch, runtime], Shelf()) == set()
    assert "__cudaLaunchKernel" in unresolved(launch, [launch], Shelf())
    other = replace(launch, elf=replace(launch.elf, needed=("libgcc_s.so.1",)))
    assert "__cudaLaunchKernel" in unresolved(other, [other, runtime], Shelf())


def test_a_library_of_the_wheel_counts_through_another_and_so_does_the_driver() -> None:
    (launch,) = inspect_path(SAMPLES / "launch_zstd.so").objects
    (runtime,) = inspect_path(STUBS / "libcudart.so.13").objects
    (between,) = inspect_path(SAMPLES / "nothing.so").objects
    between = replace(between, elf=replace(between.elf, needed=("libcudart.so.13", "libcuda.so.1")))
    asking = replace(
        launch, elf=replace(launch.elf, needed=("nothing.so",), undefined=(*launch.elf.undefined, "cuInit"))
    )
    assert unresolved(asking, [asking, between, runtime], Shelf()) == set()


def pinned_as(context: Context, folder: Path, **files: str) -> tuple[LockedFile, ...]:
    """A wheel of the lock, with samples and stubs under other names (`libx__so__1` is libx.so.1)."""
    stubs = {path.name for path in STUBS.iterdir()}
    named = {f"lib/{name.replace('__', '.')}": stub(f) if f in stubs else sample(f) for name, f in files.items()}
    return (keep_wheel(context, folder, "nvidia-x", "1.0", named),)


def test_names_of_linux_without_a_version_count_where_their_library_is_reached() -> None:
    asking = inspect_path(SAMPLES / "undefined.so").objects[0]
    names = ("inflate", "crc32", "inflated")
    elf = replace(asking.elf, undefined=names, versions=(), needed=("libz.so.1",))
    assert unresolved(replace(asking, elf=elf), [], Shelf()) == {"inflated"}
    without = replace(elf, needed=("libm.so.6",))
    assert unresolved(replace(asking, elf=without), [], Shelf()) == set(names)


def test_a_pinned_library_that_is_not_reached_does_not_count(
    make_wheel: MakeWheel, wanted: Expectations, context: Context, tmp_path: Path
) -> None:
    files = pinned_as(context, tmp_path, libcudart__so__13="nothing.so", libmore__so__1="libcudart.so.13")
    message = only(examine(make_wheel(), wanted, context, files)[0], "symbol")
    assert message.startswith("undefined, and not in its DT_NEEDED is libmore.so.1, which has: ")


def test_a_pinned_library_is_reached_through_another(
    make_wheel: MakeWheel, wanted: Expectations, context: Context, tmp_path: Path
) -> None:
    files = pinned_as(context, tmp_path, libcudart__so__13="cudart12.so", libcudart__so__12="libcudart.so.13")
    assert examine(make_wheel(), wanted, context, files)[0].good


@pytest.mark.parametrize(
    ("needed", "exported", "there"),
    [
        (("libtorch.so",), (), True),
        (("libnot_torch.so",), (), False),
        ((), ("__tvm_ffi_run",), True),
        ((), ("tvm_ffi_run",), False),
    ],
)
def test_what_an_import_before_has_loaded(
    context: Context, tmp_path: Path, needed: tuple[str, ...], exported: tuple[str, ...], *, there: bool
) -> None:
    """torch's global dependencies need the CUDA runtime (here as libcudart.so.12), TVM's FFI is that itself here."""
    names = {"libtorch__so": "nothing.so", "libtorch_global_deps__so": "cudart12.so", "libnot_torch__so": "nothing.so"}
    last = {"libcudart__so__12": "libcudart.so.13"} if needed else {"libtvm_ffi__so": "libcudart.so.13"}
    shelf = shelf_of(pinned_as(context, tmp_path, **names, **last), context)
    (launch,) = inspect_path(SAMPLES / "launch_zstd.so").objects
    asking = replace(launch, elf=replace(launch.elf, needed=needed, exported=exported))
    assert (unresolved(asking, [asking], shelf) == set()) is there


def test_the_driver_has_it_but_is_not_asked() -> None:
    faults = list(symbol_faults(inspect_path(STUBS / "libdriverless.so").objects, Shelf()))
    assert [f.message for f in faults] == [
        "undefined, and not in its DT_NEEDED is the driver (libcuda.so.1, libnvidia-ml.so.1), which has:"
    ]


def test_another_object_has_it_but_is_not_asked() -> None:
    undefined = inspect_path(SAMPLES / "undefined.so").objects[0]
    other = inspect_path(SAMPLES / "nothing.so").objects[0]
    having = replace(other, elf=replace(other.elf, exported=(MISSING,)))
    faults = [f.message for f in symbol_faults([undefined, having], Shelf())]
    assert faults == ["undefined, and not in its DT_NEEDED is nothing.so, which has:"]


def test_an_object_file_before_linking_leaves_symbols_open() -> None:
    objects = inspect_path(SAMPLES / "guard_sm_121a.o").objects
    assert list(symbol_faults(objects, Shelf())) == []


def test_libraries_are_read_once_and_only_while_a_name_is_open(
    context: Context, pins: tuple[LockedFile, ...], tmp_path: Path
) -> None:
    large = keep_wheel(context, tmp_path, "nvidia-zzz", "1.0", {"lib/libzzz.so.1": sample("nothing.so") + b"\0" * 9999})
    (launch,) = inspect_path(SAMPLES / "launch_zstd.so").objects
    asking = replace(launch, elf=replace(launch.elf, needed=("libzzz.so.1", "libcudart.so.13")))
    assert unresolved(asking, [asking], shelf_of([*pins, large], context)) == set()
    tables = sorted((context.store.root / "trees").glob("symbols-*"))
    assert len(tables) == 1
    (context.store.root / "blobs" / pins[1].sha256).unlink()
    assert unresolved(asking, [asking], shelf_of(pins, context)) == set()  # from the store's table, the wheel is gone
    assert shelf_of([large], context).read("libzzz.so.1") == Provider(frozenset({"answer"}))


def test_what_a_library_needs_is_read_after_those_that_are_asked_for(context: Context, tmp_path: Path) -> None:
    names = {"liba__so": "cudart12.so", "libcudart__so__12": "nothing.so", "libbig__so": "libcudart.so.13"}
    (launch,) = inspect_path(SAMPLES / "launch_zstd.so").objects
    asking = replace(launch, elf=replace(launch.elf, needed=("liba.so", "libbig.so")))
    kept = pinned_as(context, tmp_path, **names)
    shelf, order = shelf_of(kept, context), list[str]()

    def read(name: str) -> Provider:
        order.append(name)
        return shelf.read(name)

    assert unresolved(asking, [asking], Shelf(lambda: {**shelf.sizes(), "libbig.so": 1 << 30}, read)) == set()
    assert order == ["liba.so", "libbig.so"]


def test_no_pinned_wheel_is_looked_at_for_a_wheel_without_objects(
    make_wheel: MakeWheel, wanted: Expectations, context: Context
) -> None:
    nowhere = LockedFile("torch", "2.11.0", "torch-2.11.0-py3-none-any.whl", "0" * 64, 1, ("target-x86_64",))
    path = make_wheel({"demo/__init__.py": b""})
    assert examine(path, replace(wanted, objects=()), context, (nowhere,))[0].good


@pytest.mark.parametrize(
    ("mangled", "plain"),
    [
        (MISSING, "cutlass_scaled_mm_sm120"),
        ("_Z16silu_and_mul_fp4v", "silu_and_mul_fp4"),
        ("_ZN2at6Tensor3addERKS0_", "add"),
        ("cuInit", "cuInit"),
        (f"_Z{'9' * 5000}", "9" * 4991),
    ],
)
def test_the_plain_name_of_a_function(mangled: str, plain: str) -> None:
    assert identifier(mangled) == plain


def test_the_source_that_defines_a_function() -> None:
    texts = {
        "csrc/a.cpp": b"void mm(int a);\nint other() {\n  if (mm(1) != 0) {\n    x = mm(2); } return mm(3); }\n",
        "csrc/b.cu": b"void mm(int a,\n        int b) {\n}\n",
    }
    assert defined_in("mm", texts) == "csrc/b.cu"
    assert defined_in("absent", texts) == ""


def test_the_other_wheel_knows_the_owner(context: Context) -> None:
    zero = "0" * 40
    hint = hint_from(Package("demo", "1.0", zero, "", "", "", zero, zero), context.store, before=[])
    assert hint(MISSING) == ""
    other = inspect_path(STUBS / "libcudart.so.13").objects
    hint = hint_from(Package("demo", "1.0", zero, "", "", "", zero, zero), context.store, before=other)
    assert hint("cudaGetDeviceCount") == "libcudart.so.13 of the other wheel has it"
