"""The thin effect: read the wheel, judge it, and make a VerifiedWheel of it or refuse."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.parser import BytesParser
from pathlib import Path

from builder.context import Context
from builder.errors import DigestError, NegativeVerdict
from builder.finding import Finding, Verdict
from builder.inspect import FileFacts, inspect_path
from builder.inspect.work import mapped
from builder.inspect.zips import open_archive
from builder.model import LockedFile, Package, Recipe, VerifiedWheel, Wheel
from builder.recipe import locked
from builder.verify.expect import Expectations, expectations_for
from builder.verify.judge import Evidence, judge
from builder.verify.names import readable
from builder.verify.providers import shelf_of, targets
from builder.verify.rules import Fault
from builder.verify.sources import hint_from
from builder.verify.symbols import Hint, symbol_faults
from builder.verify.wheelrules import Contents


def verify_wheel(
    wheel: Wheel, recipe: Recipe, package: Package, context: Context, root: Path | None = None
) -> VerifiedWheel:
    """Prove from its bytes that the wheel is what the recipe asks for; the only maker of a VerifiedWheel.

    `root` holds recipes/ and patches/; left out, it is the folder above the recipe's. Raises NegativeVerdict with
    every finding, DigestError when the file is no longer the one that was built, InspectError when it is unreadable,
    and what fetching the pinned wheels raises.
    """
    root = root or recipe.path.resolve().parent.parent
    wanted, files = expectations_for(recipe, package, root), pinned(recipe, root)
    with context.report.step(f"verify {wheel.path.name}"):
        verdict, file = examine(wheel.path, wanted, context, files, hint_from(package, context.store))
        if file.sha256 != wheel.sha256:
            raise DigestError(
                f"{wheel.path.name} changed after it was built",
                where=str(wheel.path),
                expected=f"sha256 {wheel.sha256}, got {file.sha256}",
                remedy="build it again",
            )
        for accepted in verdict.accepted:
            context.report.note(f"accepted: {accepted.finding.where}: {accepted.finding.rule} ({accepted.reason})")
        if not verdict.good:
            raise refusal(verdict, wheel.path)
        return VerifiedWheel(wheel, verdict)


def pinned(recipe: Recipe, root: Path) -> tuple[LockedFile, ...]:
    """The wheels of the recipe's lock that are there at run time."""
    return tuple(targets(locked(recipe, root), recipe.target.machine))


def examine(
    path: Path,
    wanted: Expectations,
    context: Context,
    files: Sequence[LockedFile] = (),
    hint: Hint = lambda _: "",
) -> tuple[Verdict, FileFacts]:
    """Observe one file or folder and judge it; symbols only when `files`, the pinned wheels, are given.

    Raises InspectError when it cannot be read, and what fetching the pinned wheels raises.
    """
    file = inspect_path(path, devices=(wanted.device,))
    symbols: tuple[Fault, ...] = ()
    if files:
        symbols = tuple(symbol_faults(file.objects, shelf_of(files, context), hint))
    with contents_of(path, file) as contents:
        verdict = judge(Evidence(file, contents, symbols), wanted)
    return readable(verdict, context.run), file


@contextmanager
def contents_of(path: Path, file: FileFacts) -> Iterator[Contents]:
    """File names and requirements of a wheel, and its files while this is open; nothing of other files."""
    if file.wheel is None:
        yield Contents()
        return
    with mapped(path) as data:
        archive = open_archive(data, path.name)
        there = {member.name: member for member in archive.members}

        def read(name: str) -> bytes | None:
            return bytes(archive.read(there[name])) if name in there else None

        texts = (read(f"{file.wheel.dist_info}/{part}") or b"" for part in ("METADATA", "WHEEL"))
        metadata, wheel = (BytesParser().parsebytes(text, headersonly=True) for text in texts)
        requires = tuple(map(str, metadata.get_all("Requires-Dist") or ()))
        asked, form = str(metadata.get("Requires-Python", "")), str(wheel.get("Wheel-Version", "")).strip()
        yield Contents(tuple(there), requires, read, tuple(_refused(path)), asked, form)


def _refused(path: Path) -> Iterator[str]:
    """The files that zipfile, and with it every installer, refuses to open: their headers contradict the directory."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            try:
                archive.open(info).close()
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError):
                yield info.filename


def refusal(verdict: Verdict, path: Path) -> NegativeVerdict:
    """The verdict as an error: every finding with its cause and remedy."""
    count = len(verdict.findings)
    return NegativeVerdict(
        f"{path.name} is not what was asked for: {count} finding{'' if count == 1 else 's'}\n" + told(verdict.findings),
        where=str(path),
        remedy="mend what each finding names and build again; a known exception is a line in [[verify.exceptions]]",
    )


def told(findings: Sequence[Finding]) -> str:
    """Findings for people, two lines each."""
    return "\n".join(f"  - {f.rule}: {f.where}: {f.message}\n      {f.remedy}" for f in findings)
