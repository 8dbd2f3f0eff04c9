"""One exception tree, one exit code a class; only `__main__` turns them into exits."""

from __future__ import annotations

from typing import ClassVar


class BuilderError(Exception):
    """Something the reader can act on.

    `what` happened, `where` (file, table, URL, stage), what was `expected`, and the
    next step in `remedy`. Exit code 1 is a negative verdict, 2 bad usage; every other
    class has one of its own. Only its subclasses are raised.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, *, where: str = "", expected: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        lines = [self.what]
        for label, text in (("where", self.where), ("expected", self.expected), ("next", self.remedy)):
            if text:
                lines.append(f"  {label}: {text}")
        return "\n".join(lines)


class NegativeVerdict(BuilderError):
    """The question was answered, and the answer is no."""

    exit_code = 1


class UsageError(BuilderError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class RecipeError(BuilderError):
    """A recipe, or its lock, is wrong; every problem found is in the message."""

    exit_code = 3


class FetchError(BuilderError):
    """A file could not be had: no network, not on the index, cut short."""

    exit_code = 4


class DigestError(BuilderError):
    """What arrived is not what was pinned."""

    exit_code = 5


class ArchiveError(BuilderError):
    """An archive is damaged or would write outside its folder."""

    exit_code = 6


class SourceError(BuilderError):
    """A source tree is not the pinned one, or lacks a pinned part."""

    exit_code = 7


class PatchError(BuilderError):
    """A patch is malformed, does not apply, or left another tree than the pinned one."""

    exit_code = 8


class ToolchainError(BuilderError):
    """A compiler, library or host tool is missing or of the wrong version."""

    exit_code = 9


class CompileError(BuilderError):
    """Configure, a compile unit or a link failed."""

    exit_code = 10


class WheelError(BuilderError):
    """A wheel could not be assembled, or does not describe itself truthfully."""

    exit_code = 11


class InspectError(BuilderError):
    """A binary or wheel cannot be read as what it claims to be."""

    exit_code = 12


class PublishError(BuilderError):
    """The index or image refused, and is unchanged."""

    exit_code = 13


class StoreError(BuilderError):
    """The cache or an output folder cannot be written (disk full, permissions, locks)."""

    exit_code = 14


class RunError(BuilderError):
    """A subprocess could not be started or ended badly."""

    exit_code = 15


class InternalError(BuilderError):
    """A fault in the builder itself; its traceback is kept in a file."""

    exit_code = 70


class Interrupted(BuilderError):
    """Ctrl-C or a termination signal; work done so far is kept."""

    exit_code = 130
