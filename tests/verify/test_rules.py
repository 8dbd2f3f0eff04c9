"""How results become findings: every name is kept, the text names the first."""

from __future__ import annotations

import json

from builder.context import Context
from builder.finding import Verdict
from builder.inspect import inspect_path
from builder.verify import for_device, run_verb
from builder.verify.names import readable
from builder.verify.picture import page
from builder.verify.rules import Fault, told
from builder.verify.verb import _row
from tests.verify.conftest import ROOT, SAMPLES

LONG = "_Z" + "".join(f"{len(word)}{word}" for word in ("kernel" * 40,)) + "v"


def test_a_finding_keeps_every_name() -> None:
    names = [f"k{number}" for number in range(5)]
    (finding,) = told(Fault("trap", "a.so", "they only trap:", "widen it", name) for name in (*names, "k0"))
    assert finding.message == "they only trap: 6 of 5 names in all: k0, k1, k2 and 2 more"
    assert finding.names == tuple(names)
    assert _row(finding)["names"] == names


def test_what_is_told_of_a_file_stays_as_it_is_written() -> None:
    (finding,) = told([Fault("record", "w.whl", "RECORD lacks demo/{}.py", "build it again")])
    assert finding.message == "RECORD lacks demo/{}.py"
    assert finding.names == ()


def test_a_note_parts_findings() -> None:
    known = (("a", "x"), ("b", "x"), ("c", "y"))
    faults = [Fault("symbol", "a.so", "nobody defines:", "build it", name, note) for name, note in known]
    messages = [finding.message for finding in told(faults)]
    assert messages == ["nobody defines: 2 in all: a, b (x)", "nobody defines: 1 in all: c (y)"]


def test_only_the_text_is_cut(context: Context) -> None:
    verdict = readable(Verdict(tuple(told([Fault("trap", "a.so", "they trap:", "widen it", LONG)])), {}), context.run)
    (finding,) = verdict.findings
    assert "…" in finding.message
    assert finding.names == (LONG,)


def test_the_document_names_the_kernels_as_exceptions_know_them(context: Context) -> None:
    document, _, _ = run_verb([str(SAMPLES / "guard_sm_121a.o")], {"device": "12.1"}, context, ROOT)
    assert json.loads(json.dumps(document)) == document
    names = {finding["rule"]: finding["names"] for finding in document["files"][0]["findings"]}
    assert names["empty"] == ["_Z13guarded_emptyPf"]
    assert names["trap"] == ["_Z12guarded_trapPf", "_Z15both_paths_trapi", "_Z19guarded_printf_trapPf"]


def test_the_page_unfolds_what_the_text_leaves_out() -> None:
    file = inspect_path(SAMPLES / "guard_sm_121a.o")
    few = tuple(f"_Z2k{number}Pf" for number in range(1, 5))
    many = (*(f"_ZN5flash8fwd_kernILi{number}EEvv" for number in range(150)), *few)
    findings = [
        told(Fault("jit", "a.o", "compiled at load:", "build them", name) for name in names) for names in (few, many)
    ]
    verdict = Verdict(tuple(finding for group in findings for finding in group), {"guard_sm_121a.o": ()})
    html = page([(file, verdict, for_device("12.1"))])
    assert "<summary>4 names</summary>" in html
    assert all(f"{name}<br>" in html for name in few)
    assert "<summary>154 names</summary>" in html
    assert "fwd_kern: 150<br>" in html
    assert "fwd_kernILi7E" not in html.replace(verdict.findings[1].message, "")
