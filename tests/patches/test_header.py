"""Headers and the declarative questions in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.patches.header import REQUIRED, read_header
from builder.patches.load import read_patch
from builder.patches.probe import ProbeError, parse_probe

FULL = b"""Description: short
 and a second line
Bug: none known
Origin: ours
Applies-To: vllm 0.20.0
Drop-When: upstream does it
Expects: x.py: def f
Expects: x.py: def g
---
Unknown: this is comment
"""


def lines(data: bytes) -> tuple[bytes, ...]:
    return tuple(data.splitlines(keepends=True))


def test_a_full_header_is_read() -> None:
    header = read_header(lines(FULL))
    assert (header.faults, header.missing) == ((), ())
    assert header.description == "short"
    assert dict(header.fields)["Description"] == "short\nand a second line"
    assert [probe.argument for probe in header.expects] == ["f", "g"]
    assert header.names_version("0.20.0")
    assert not header.names_version("0.20.1")


def test_no_header_is_missing_fields_and_no_fault() -> None:
    header = read_header(lines(b"Some words about it.\n"))
    assert (header.faults, header.missing) == ((), REQUIRED)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"Descripton: typo\n", "did you mean Description?"),
        (b"Whatever: x\n", "known are"),
        (b"Origin: again\nOrigin: twice\n", "given twice"),
        (b"Applies-To: soon\n", "no version range"),
        (b"Expects: nonsense\n", "is not PATH"),
    ],
)
def test_faults_have_their_line(line: bytes, said: str) -> None:
    header = read_header(lines(b"Description: x\n" + line))
    assert said in header.faults[0].message
    assert header.faults[0].line in {2, 3}


@pytest.mark.parametrize("text", [">=0.20,<0.21", "==0.20.0", "vllm >= 0.20", "0.20.0"])
def test_ranges_and_versions_are_understood(text: str) -> None:
    assert read_header((f"Applies-To: {text}\n".encode(),)).applies_to is not None


def test_every_patch_of_the_project_has_a_full_header() -> None:
    root = Path(__file__).parents[2] / "patches"
    found = sorted(root.glob("*/*.patch"))
    assert found
    for path in found:
        patch = read_patch(path.name, path.read_bytes())
        assert (patch.faults, patch.header.missing) == ((), ()), path.name


SOURCE = b"""
import os
from a.b import c
try:
    import late._C
except ImportError:
    pass

TABLE: dict[str, int] = {"one": 1}
TABLE.update({"method": 2})
TABLE["two"] = 2
NAMES = ["x", "y"]

class Base(object):
    def get(self, size):
        assert size is not None
        return max(size, 1)

    @property
    def late(self):
        text = '''
no indent here
'''
        return text

async def top(a,
    b
):
    # comment
    value = a == b
    return value
"""


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("x.py: key TABLE one", True),
        ("x.py: key TABLE two", True),
        ("x.py: key TABLE three", False),
        ("x.py: not key TABLE three", True),
        ("x.py: key NAMES y", True),
        ("x.py: def top", True),
        ("x.py: def Base.get", True),
        ("x.py: def Base.put", False),
        ("x.py: not def Base.put", True),
        ("x.py: class Base", True),
        ("x.py: class Base(object)", True),
        ("x.py: class Base(Other)", False),
        ("x.py: def Base", False),
        ("x.py: import os", True),
        ("x.py: import a.b.c", True),
        ("x.py: import late._C", True),
        ("x.py: not import gone", True),
        ("x.py@Base.get: assert size is not None", True),
        ("x.py@Base.get: not assert  size   is not None", False),
        ("x.py@top: not assert size is not None", True),
        ("x.py@gone: not assert size is not None", False),
        ("x.py@Base.top: not assert zork > 0", False),  # there is a Base and a top, but no such method
        ("x.py@Base.top: assert zork > 0", False),
        ("x.py@Base.get: not assert zork > 0", True),
        ("x.py@Base.get: call max", True),
        ("x.py@top: call max", False),
        ("x.py@top: code value = a == b", True),
        ("x.py@top: code a == b", True),
        ("x.py@top: code b == a", False),
        ('x.py@top: text "# comment"', True),
        ("x.py@Base: text # comment", False),
        ("x.py@Base.late: text no indent", True),
        (r"x.py: regex ^NAMES = \[", True),
        ("x.py: exists", True),
        ("y.py: exists", False),
        ("y.py: not exists", True),
        ("y.py: not text anything", False),
        ("broken.py: def f", False),
        ("broken.py: not assert f", False),
        ("broken.py: text def f", True),
    ],
)
def test_questions_have_answers(question: str, answer: bool) -> None:
    files = {"x.py": SOURCE, "broken.py": b"def f(:\n"}
    assert parse_probe(question).holds(files.get) is answer


@pytest.mark.parametrize(
    "text",
    [
        "x.py",
        "x.py: sing a song",
        "x.py: def",
        "x.py: exists now",
        "x.cpp: def f",
        "x.py: regex (",
        "x.py: assert if",
        "x.py: key ONLY",
    ],
)
def test_bad_questions_are_refused(text: str) -> None:
    with pytest.raises(ProbeError):
        parse_probe(text)
