from pathlib import Path

from builder.compile.ninjafile import Unit, edges_in, links_in, reader, units_in

REAL = (Path(__file__).parent / "data" / "vllm.ninja").read_text()
ROOT = "/var/tmp/spark-wheels/src/vllm"  # noqa: S108  as it stands in the file
LOG = """# ninja log v7
1	1219	1796037569768872604	CMakeFiles/a.dir/csrc/a.cpp.o	78a3202c41195339
1220	1952	1796037570993191873	a.so	ffb60514ca0f4c2f
5	2005	1796040000000000000	CMakeFiles/a.dir/csrc/a.cpp.o	78a3202c41195339
"""


def nothing(_name: str) -> str:
    return ""


def test_the_units_of_a_real_build_file_are_its_objects_with_their_sources() -> None:
    units = units_in(REAL, ROOT, nothing)
    assert len(units) == 102
    assert Unit("CMakeFiles/_C.dir/csrc/cache_kernels.cu.o", "csrc/cache_kernels.cu") in units
    twice = [unit.target for unit in units if unit.source == "csrc/cutlass_extensions/common.cpp"]
    assert len(twice) == 2


def test_each_link_names_the_objects_that_go_into_it_and_no_library() -> None:
    links = {link.target: link.inputs for link in links_in(REAL, nothing)}
    assert sorted(links) == ["_C.abi3.so", "_C_stable_libtorch.abi3.so", "_moe_C.abi3.so", "cumem_allocator.abi3.so"]
    assert sorted(name for inputs in links.values() for name in inputs) == [
        u.target for u in units_in(REAL, ROOT, nothing)
    ]


def test_files_that_it_includes_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "sub.ninja").write_text(
        "build m/x.cuda.o: cuda_compile /src/x.cu\n  a = b\nbuild m.so: link m/x.cuda.o\n"
    )
    text = "ninja_required_version = 1.3\nsubninja sub.ninja\nsubninja not-there.ninja\n"
    assert units_in(text, "/src", reader(tmp_path)) == (Unit("m/x.cuda.o", "x.cu"),)
    assert links_in(text, reader(tmp_path))[0].inputs == ("m/x.cuda.o",)


def test_escapes_continuations_and_implicit_outputs_are_read_as_ninja_reads_them() -> None:
    text = "build a$ b$:c.o | a.dbg: cc $\n    /src/a$ b.cpp | gen.h || order\nbuild x: phony a.o\n"
    assert units_in(text, "/src", nothing) == (Unit("a b:c.o", "a b.cpp"),)


def test_a_log_gives_absolute_times_and_the_last_run_of_each_target() -> None:
    edges = {edge.target: edge for edge in edges_in(LOG)}
    assert round(edges["a.so"].start, 3) == 1796037570.993
    assert round(edges["a.so"].end - edges["a.so"].start, 3) == 0.732
    assert round(edges["CMakeFiles/a.dir/csrc/a.cpp.o"].end, 3) == 1796040002.0


def test_a_log_cut_short_or_of_another_form_is_no_fault() -> None:
    assert len(edges_in(f"{LOG}1220\t19")) == 2
    assert edges_in("") == ()
    assert edges_in("# ninja log v9\n1\t2\t3\ta\tb\n") == ()
