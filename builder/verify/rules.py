"""The shape of a rule's result, and how results become findings.

A rule yields one `Fault` per kernel, symbol or file, so that an exemption can be as narrow as its
reason; what is left is told as one finding per rule and place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

from builder.finding import Accepted, Finding
from builder.verify.expect import Exempt

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """One contradiction. `about` is the kernel or symbol, told after `message`; `note` is what else is known of it.

    `only` is the name of one that must not pass along with others: an exemption has to give it, letter by letter.
    """

    rule: str
    where: str
    message: str
    remedy: str
    about: str = ""
    note: str = ""
    only: str = ""


def at(path: str, pattern: str, *, whole: bool) -> bool:
    """True when the shell pattern matches the path; of a file that lies outside its wheel, only the name counts.

    In a whole wheel what has no folder lies at its top, or is no file at all: the wheel's own name, a component's.
    """
    alone = not whole and "/" not in path
    return fnmatchcase(path, pattern) or (alone and fnmatchcase(path, pattern.rpartition("/")[2]))


def sift(
    faults: Iterable[Fault], exempt: Sequence[Exempt], *, whole: bool = True
) -> tuple[tuple[Finding, ...], tuple[Accepted, ...]]:
    """What stands, as findings, and what is accepted, with its reason.

    Exemptions that nothing uses are findings, where the facts are of a whole wheel.
    """
    standing: list[Fault] = []
    taken: dict[Exempt, list[Fault]] = {}
    for fault in faults:
        reason = next((entry for entry in exempt if _covers(entry, fault, whole=whole)), None)
        (standing if reason is None else taken.setdefault(reason, [])).append(fault)
    accepted = (Accepted(finding, entry.reason) for entry, group in taken.items() for finding in told(group))
    unused = (_unused(entry) for entry in exempt if whole and entry.needed and entry not in taken)
    return (*told(standing), *unused), tuple(sorted(accepted, key=lambda a: (a.finding.where, a.finding.rule)))


def told(faults: Iterable[Fault]) -> Iterator[Finding]:
    """One finding for all faults of the same rule, place and wording: the first names in its text, all in `names`."""

    def key(fault: Fault) -> tuple[str, ...]:
        return (fault.where, fault.rule, fault.message, fault.note, fault.remedy)

    for (where, rule, message, note, remedy), group in groupby(sorted(faults, key=key), key):
        same = list(group)
        abouts = [fault.about for fault in same if fault.about]
        text = [message, _listed(abouts) if abouts else "", f"({note})" if note else ""]
        names = {fault.only for fault in same if fault.only}.union(abouts)
        yield Finding(rule, where, " ".join(filter(None, text)), remedy, tuple(sorted(names)))


def _listed(abouts: Sequence[str]) -> str:
    """`3 in all: a, b`; a kernel that lies in several images counts once for each."""
    names = sorted(set(abouts))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    total = str(len(abouts)) if len(abouts) == len(names) else f"{len(abouts)} of {len(names)} names"
    return f"{total} in all: {', '.join(names[:_SHOWN])}{more}"


def _covers(entry: Exempt, fault: Fault, *, whole: bool) -> bool:
    if entry.rule != fault.rule or not at(fault.where, entry.object, whole=whole):
        return False
    if fault.only:
        return entry.name == fault.only
    return entry.name == "*" or fnmatchcase(fault.about, entry.name)


def _unused(entry: Exempt) -> Finding:
    names = "" if entry.name == "*" else f" ({entry.name})"
    return Finding(
        "exception",
        entry.object,
        f"the exception for {entry.rule}{names} no longer applies: nothing here does what it excuses",
        "take it out of [[verify.exceptions]]",
    )
