"""What a unified diff says, as frozen records of plain bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Something wrong with a patch file itself, at a 1-based line of it."""

    line: int
    message: str
    kind: str = "syntax"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. `body` lines are a tag (space, `-`, `+`) and the text with its newline, if it has one.

    `line` is the 1-based line of its header in the patch file; `old_start` and `new_start` are
    as written there. `faulty` hunks have wrong counts or damaged lines; their body is what was
    really found, so that its place can still be reported.
    """

    line: int
    old_start: int
    new_start: int
    body: tuple[bytes, ...]
    section: str = ""
    faulty: bool = False
    old: tuple[bytes, ...] = field(init=False, repr=False)
    new: tuple[bytes, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "old", tuple(text[1:] for text in self.body if text[:1] != b"+"))
        object.__setattr__(self, "new", tuple(text[1:] for text in self.body if text[:1] != b"-"))

    @property
    def leading(self) -> int:
        """Context lines before the first change."""
        return next((i for i, text in enumerate(self.body) if text[:1] != b" "), len(self.body))

    @property
    def trailing(self) -> int:
        """Context lines after the last change."""
        return next((i for i, text in enumerate(reversed(self.body)) if text[:1] != b" "), len(self.body))

    @property
    def old_index(self) -> int:
        """0-based index of its first old line (of the line it is put before, without old lines)."""
        return self.old_start - 1 if self.old else self.old_start

    @property
    def title(self) -> str:
        """Its header line, written anew."""
        section = f" {self.section}" if self.section else ""
        return f"@@ -{self.old_start},{len(self.old)} +{self.new_start},{len(self.new)} @@{section}"

    def reversed(self) -> Hunk:
        """The hunk that takes this one back."""
        swap = {b"+": b"-", b"-": b"+", b" ": b" "}
        body = tuple(swap[text[:1]] + text[1:] for text in self.body)
        return replace(self, old_start=self.new_start, new_start=self.old_start, body=body)


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file.

    `old` and `new` are paths in the tree, None for a file that is not there before or after.
    Modes are git's, 0 where the patch does not say. `old_oid` is the (possibly short) id of the
    blob that the patch was made on, "" when unsaid.
    """

    line: int
    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...] = ()
    old_mode: int = 0
    new_mode: int = 0
    old_oid: str = ""
    new_oid: str = ""
    copy: bool = False

    @property
    def path(self) -> str:
        """The path to name in messages: after the patch, or before it if it is deleted."""
        return self.new or self.old or ""

    @property
    def kind(self) -> str:
        """create, delete, copy, rename or modify."""
        if self.old is None:
            return "create"
        if self.new is None:
            return "delete"
        if self.copy:
            return "copy"
        return "modify" if self.old == self.new else "rename"

    @property
    def on_file_level(self) -> bool:
        """True when it does more than change lines: create, delete, rename, copy, mode."""
        return self.kind != "modify" or (bool(self.old_mode) and self.old_mode != self.new_mode)

    def reversed(self) -> FilePatch:
        """The change that takes this one back (a copy is taken back by deleting it)."""
        return replace(
            self,
            old=self.new,
            new=None if self.copy else self.old,
            hunks=tuple(hunk.reversed() for hunk in self.hunks),
            old_mode=self.new_mode,
            new_mode=self.old_mode,
            old_oid=self.new_oid,
            new_oid=self.old_oid,
            copy=False,
        )


@dataclass(frozen=True, slots=True)
class Diff:
    """A whole patch file: the text above its first diff, its file changes, and every fault found."""

    preamble: tuple[bytes, ...]
    files: tuple[FilePatch, ...]
    faults: tuple[Fault, ...]

    @property
    def paths(self) -> frozenset[str]:
        """Every path that it reads or writes."""
        return frozenset(path for item in self.files for path in (item.old, item.new) if path)

    def reversed(self) -> Diff:
        """The diff that takes this one back."""
        return Diff(self.preamble, tuple(item.reversed() for item in reversed(self.files)), self.faults)
