"""The DEP-3 header above a patch's diff: who wants it, where it holds, when it may go.

    Description: one line
     more lines, each after a space
    Bug: https://… or "none known"
    Origin: ours
    Applies-To: vllm 0.20.0          (or a range: >=0.20,<0.21)
    Drop-When: in words
    Expects: vllm/config.py: def VllmConfig.adjust
    Superseded-When: vllm/_custom_ops.py: not text "import vllm._C_stable_libtorch"

Expects and Superseded-When may be given several times; all of them must hold (see probe.py).
A line with a lone `---` ends the header; what follows up to the diff is comment.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from builder.patches.diff import Fault
from builder.patches.probe import Probe, ProbeError, parse_probe

REQUIRED = ("Description", "Bug", "Origin", "Applies-To", "Drop-When")
_PROBES = ("Expects", "Superseded-When")
_OTHERS = ("Author", "From", "Subject", "Date", "Forwarded", "Reviewed-By", "Last-Update", "Applied-Upstream", "Note")
_KNOWN = {name.lower(): name for name in (*REQUIRED, *_PROBES, *_OTHERS)}
_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*):\s?(.*)")


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of one patch, its probes, and what is wrong or missing."""

    fields: tuple[tuple[str, str], ...]
    expects: tuple[Probe, ...] = ()
    superseded_when: tuple[Probe, ...] = ()
    applies_to: SpecifierSet | None = None
    faults: tuple[Fault, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The first line of the description."""
        text = dict(self.fields).get("Description") or dict(self.fields).get("Subject", "")
        return text.split("\n", 1)[0]

    @property
    def origin(self) -> str:
        """Where the patch comes from: `upstream, …` or `backport, …` (DEP-3), else who wrote it."""
        return dict(self.fields).get("Origin", "")

    @property
    def bugs(self) -> tuple[str, ...]:
        """The addresses of the issues that it resolves; `none known` is none."""
        return tuple(value for name, value in self.fields if name == "Bug" and "://" in value)

    def names_version(self, version: str) -> bool:
        """True when Applies-To is exactly this one version."""
        return self.applies_to is not None and str(self.applies_to) == f"=={version}"


def read_header(preamble: tuple[bytes, ...]) -> Header:
    """Read the header; a field that is unknown, given twice or unreadable is a fault with its line.

    A patch without any field has no header: that is reported in `missing`, not as a fault.
    """
    fields, faults = _fields(preamble)
    probes, bad = _probes(fields)
    applies, wrong = _applies_to(fields)
    present = {name for _, name, _ in fields}
    return Header(
        fields=tuple((name, value) for _, name, value in fields),
        expects=tuple(probe for name, probe in probes if name == "Expects"),
        superseded_when=tuple(probe for name, probe in probes if name == "Superseded-When"),
        applies_to=applies,
        faults=tuple(sorted([*faults, *bad, *wrong])),
        missing=tuple(name for name in REQUIRED if name not in present),
    )


def _fields(preamble: tuple[bytes, ...]) -> tuple[list[tuple[int, str, str]], list[Fault]]:
    fields: list[tuple[int, str, str]] = []
    faults: list[Fault] = []
    for number, raw in enumerate(preamble, 1):
        line = raw.decode(errors="replace").rstrip("\r\n")
        if line.strip() == "---" or (not line.strip() and fields):
            break
        match = _FIELD.fullmatch(line)
        if line[:1] in {" ", "\t"} and fields:
            at, name, value = fields[-1]
            fields[-1] = (at, name, f"{value}\n{line.strip()}".removesuffix("\n."))
        elif match:
            _add(number, match[1], match[2].strip(), fields, faults)
    return fields, faults


def _add(number: int, word: str, value: str, fields: list[tuple[int, str, str]], faults: list[Fault]) -> None:
    lower = word.lower()
    name = _KNOWN.get("bug" if lower.startswith("bug-") else lower)
    if name is None:
        near = difflib.get_close_matches(lower, _KNOWN, 1)
        hint = f"; did you mean {_KNOWN[near[0]]}?" if near else f"; known are {', '.join(sorted(_KNOWN.values()))}"
        faults.append(Fault(number, f"unknown header field {word}{hint}", "field"))
    elif name not in {*_PROBES, "Bug"} and any(name == known for _, known, _ in fields):
        faults.append(Fault(number, f"header field {name} is given twice", "field"))
    else:
        fields.append((number, name, value))


def _probes(fields: list[tuple[int, str, str]]) -> tuple[list[tuple[str, Probe]], list[Fault]]:
    probes: list[tuple[str, Probe]] = []
    faults: list[Fault] = []
    for number, name, value in fields:
        if name not in _PROBES:
            continue
        try:
            probes.append((name, parse_probe(" ".join(value.split("\n")))))
        except ProbeError as error:
            faults.append(Fault(number, f"{name}: {error}", "probe"))
    return probes, faults


def _applies_to(fields: list[tuple[int, str, str]]) -> tuple[SpecifierSet | None, list[Fault]]:
    found = next(((number, value) for number, name, value in fields if name == "Applies-To"), None)
    if found is None:
        return None, []
    text = re.sub(r"^[A-Za-z][\w.-]*\s*(?=[=<>!~\d])", "", found[1])
    text = f"=={text}" if text[:1].isdigit() else text
    try:
        return SpecifierSet(text, prereleases=True), []
    except InvalidSpecifier:
        message = f"Applies-To: {found[1]!r} is no version range such as ==0.20.0 or >=0.20,<0.21"
        return None, [Fault(found[0], message, "field")]
