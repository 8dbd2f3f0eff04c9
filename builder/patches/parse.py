"""Reads unified diffs, git's extended form included, and says everything that is wrong with one.

Own parser, because no library gives what the states of a series need: unidiff and whatthepatch
decode to text (line endings and unmarked newlines get lost), libgit2 stops at the first fault
and names no line, and none reads on past a wrong count so that counting and context faults can
be told in one run. Everything here is bytes; only paths are text.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field

from builder.patches.diff import EXECUTABLE, FILE, LINK, Diff, Fault, FilePatch, Hunk
from builder.patches.paths import Unsafe, name_of, pair_of

MAX_BYTES = 8 * 1024 * 1024
"""A larger patch is refused unread: a source fix is some kilobytes, and judging needs it in memory."""

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@[ \t]?([^\r\n]*)")
_INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d{6}))?\s*$")
_MODE = re.compile(rb"(old mode|new mode|new file mode|deleted file mode) (\d{6})\s*$")
_MOVE = re.compile(rb"(rename|copy) (from|to) (.+?)\r?\n?$")
_BINARY = re.compile(rb"(GIT binary patch|Binary files .* differ)\s*$")
_MODES = {FILE, EXECUTABLE, LINK}
_SIGNATURE = {b"-- \n", b"--\n", b"-- "}


def parse(data: bytes) -> Diff:
    """Read a patch file. Never raises: what is wrong is in `faults`, each with its line."""
    if len(data) > MAX_BYTES:
        return Diff((), (), (Fault(1, too_large(len(data)), "size"),))
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        return Diff((), (), (Fault(line, "a NUL byte: this is no text patch", "binary"),))
    return _Reader(io.BytesIO(data).readlines()).read()


def too_large(size: int) -> str:
    """The message about a patch over the limit."""
    return f"the patch has {size / 1e6:.0f} MB; the limit is {MAX_BYTES / 1e6:.0f} MB"


@dataclass(slots=True)
class _Section:
    """The headers of one file change while they are read."""

    line: int
    names: tuple[str, str] | None = None
    old: str | None = ""
    new: str | None = ""
    modes: dict[str, int] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    oids: tuple[str, str] = ("", "")
    mode: int = 0
    copy: bool = False
    git: bool = False
    lines: bool = False
    bad: bool = False


class _Reader:
    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.at = 0
        self.faults: list[Fault] = []
        self.files: list[FilePatch] = []

    def read(self) -> Diff:
        self._skip_text()
        preamble = tuple(self.lines[: self.at])
        while self.at < len(self.lines):
            self._file()
            self._skip_text()
        self._ends_with_newline()
        return Diff(preamble, tuple(self.files), tuple(sorted(set(self.faults))))

    def fault(self, message: str, kind: str, at: int | None = None) -> None:
        self.faults.append(Fault((self.at if at is None else at) + 1, message, kind))

    def _line(self, ahead: int = 0) -> bytes:
        index = self.at + ahead
        return self.lines[index] if index < len(self.lines) else b""

    def _starts_file(self) -> bool:
        return self._line().startswith(b"diff --git ") or (
            self._line().startswith(b"--- ") and self._line(1).startswith(b"+++ ")
        )

    def _skip_text(self) -> None:
        while self.at < len(self.lines) and not self._starts_file():
            if self._line().startswith(b"@@ -"):
                self.fault("a hunk without a file header (--- and +++) above it", "header")
                self._hunk()
            elif _BINARY.match(self._line()):
                self.fault("a binary diff: only text can be patched and reviewed", "binary")
                self.at += 1
            else:
                self.at += 1

    def _ends_with_newline(self) -> None:
        if self.files and self.lines and not self.lines[-1].endswith(b"\n"):
            self.fault("the last line has no newline: the patch is cut short", "newline", len(self.lines) - 1)

    # -- one file ---------------------------------------------------------------------------

    def _file(self) -> None:
        section = _Section(self.at)
        if self._line().startswith(b"diff --git "):
            self._git_header(section)
        if self._line().startswith(b"--- ") and self._line(1).startswith(b"+++ "):
            section.lines = True
            section.old = self._name(b"--- ", section)
            section.new = self._name(b"+++ ", section)
        hunks = []
        while self._line().startswith(b"@@ "):
            hunk = self._hunk()
            if hunk is not None:
                hunks.append(hunk)
        self._check_order(hunks)
        self._finish(section, tuple(hunks))

    def _git_header(self, section: _Section) -> None:
        self._no_cr("diff --git")
        section.git = True
        try:
            section.names = pair_of(self._line()[len(b"diff --git ") :])
        except Unsafe as error:
            self.fault(str(error), "path")
            section.bad = True
        self.at += 1
        while self._extended(section):
            self.at += 1
        if self._breaks():
            self.fault("this line belongs to no file header that git writes", "header")

    def _extended(self, section: _Section) -> bool:
        line = self._line()
        if match := _INDEX.match(line):
            section.oids = (match[1].decode(), match[2].decode())
            section.mode = self._mode(match[3] or b"0")
        elif match := _MODE.match(line):
            section.modes[match[1].decode()] = self._mode(match[2])
        elif match := _MOVE.match(line):
            section.copy = match[1] == b"copy"
            section.moves[match[2].decode()] = self._moved(match[3], section)
        elif _BINARY.match(line):
            self.fault("a binary diff: only text can be patched and reviewed", "binary")
            section.bad = True
        else:
            return line.startswith((b"similarity index ", b"dissimilarity index "))
        return True

    def _mode(self, text: bytes) -> int:
        mode = int(text, 8) if text.isdigit() and not set(text) & set(b"89") else -1
        if mode and mode not in _MODES:
            what = "a submodule" if mode == 0o160000 else f"mode {text.decode()}"
            self.fault(f"{what}: only files (100644, 100755) and links (120000) can be patched", "mode")
            return 0
        return mode

    def _moved(self, text: bytes, section: _Section) -> str:
        try:
            return name_of(text, strip=0) or ""
        except Unsafe as error:
            self.fault(str(error), "path")
            section.bad = True
            return ""

    def _name(self, mark: bytes, section: _Section) -> str | None:
        self._no_cr(mark.decode().strip())
        try:
            return name_of(self._line()[len(mark) :], strip=1)
        except Unsafe as error:
            self.fault(str(error), "path")
            section.bad = True
            return ""
        finally:
            self.at += 1

    def _no_cr(self, what: str) -> None:
        if self._line().endswith(b"\r\n") and not any(f.kind == "crlf" for f in self.faults):
            self.fault(f"the {what} line ends in CRLF: the patch file itself was converted; restore it to LF", "crlf")

    def _finish(self, section: _Section, hunks: tuple[Hunk, ...]) -> None:
        names = self._names(section)
        if names is None:
            return
        old, new = names
        modes = section.modes
        patch = FilePatch(
            line=section.line + 1,
            old=old,
            new=new,
            hunks=hunks,
            old_mode=modes.get("old mode", modes.get("deleted file mode", 0)) or (section.mode if old and new else 0),
            new_mode=modes.get("new mode", modes.get("new file mode", 0)) or (section.mode if old and new else 0),
            old_oid=section.oids[0],
            new_oid=section.oids[1],
            copy=section.copy and bool(section.moves),
        )
        if section.lines and not hunks:
            self.fault("--- and +++ without a hunk below them", "header", section.line)
        self._check_shape(patch)
        self.files.append(patch)

    def _names(self, section: _Section) -> tuple[str | None, str | None] | None:
        if section.bad:
            return None
        old, new = section.old, section.new
        if old == "" and new == "":
            old, new = section.names or ("", "")
            old = None if "new file mode" in section.modes else section.moves.get("from", old)
            new = None if "deleted file mode" in section.modes else section.moves.get("to", new)
        elif section.names is None and not old and not new:
            old = new = ""
        if (old is None and new is None) or old == "" or new == "":
            self.fault("this file header names no file", "header", section.line)
            return None
        self._check_names(section, old, new)
        return old, new

    def _check_names(self, section: _Section, old: str | None, new: str | None) -> None:
        told = section.moves.get("from"), section.moves.get("to")
        if section.moves and told != (old, new):
            self.fault(
                f"renames or copies {told[0]} to {told[1]}, but the diff is of {old} and {new}", "header", section.line
            )
        elif not section.moves and old and new and old != new:
            self.fault(f"--- names {old}, +++ names {new}, and no rename is declared", "header", section.line)
        elif section.git and (("new file mode" in section.modes), ("deleted file mode" in section.modes)) != (
            old is None,
            new is None,
        ):
            message = "/dev/null goes with a `new file mode` or `deleted file mode` line, and the other way round"
            self.fault(message, "header", section.line)
        elif section.names and not {old, new} - {None} <= set(section.names):
            self.fault(f"diff --git names {section.names[0]}, the lines below it {new or old}", "header", section.line)

    def _check_shape(self, patch: FilePatch) -> None:
        whole = patch.kind in {"create", "delete"}
        side = [hunk.old if patch.kind == "create" else hunk.new for hunk in patch.hunks]
        if whole and (len(side) > 1 or any(side)):
            self.fault(
                f"{patch.path} is declared a file to {patch.kind}, but a hunk keeps lines", "header", patch.line - 1
            )
        elif not patch.hunks and not patch.on_file_level:
            self.fault(f"nothing is changed in {patch.path}", "header", patch.line - 1)

    def _check_order(self, hunks: list[Hunk]) -> None:
        end, delta = 0, 0
        for hunk in hunks:
            if hunk.faulty:
                return
            if hunk.old_index < end:
                self.fault("this hunk starts before the last one ends: hunks must be in order", "order", hunk.line - 1)
            first = hunk.old_index + delta + (1 if hunk.new else 0)
            if hunk.new_start != first:
                self.fault(
                    f"the hunk header says +{hunk.new_start}, but the hunks above make it +{first}",
                    "counts",
                    hunk.line - 1,
                )
            end, delta = hunk.old_index + len(hunk.old), delta + len(hunk.new) - len(hunk.old)
            if hunk is not hunks[-1] and not all(text.endswith(b"\n") for text in hunk.body):
                self.fault("a no-newline mark, but another hunk follows", "newline", hunk.line - 1)

    # -- one hunk ---------------------------------------------------------------------------

    def _hunk(self) -> Hunk | None:
        start = self.at
        match = _HUNK.match(self._line())
        if match is None:
            self.fault("not a hunk header: expected @@ -START,COUNT +START,COUNT @@", "header")
            self.at += 1
            self._scan()
            return None
        self._no_cr("@@")
        self.at += 1
        told = (int(match[2] or 1), int(match[4] or 1))
        body, good = self._counted(*told)
        if not good:
            self.at = start + 1
            body = self._scan()
        known = len(self.faults)
        if not good:
            self._say_counts(start, told, body)
        self._check_body(start, body)
        return Hunk(
            line=start + 1,
            old_start=int(match[1]),
            new_start=int(match[3]),
            body=tuple(text for _, text in body),
            section=match[5].decode(errors="replace").rstrip(),
            faulty=len(self.faults) > known,
        )

    def _say_counts(self, start: int, told: tuple[int, int], body: list[tuple[int, bytes]]) -> None:
        old = sum(text[:1] != b"+" for _, text in body)
        new = sum(text[:1] != b"-" for _, text in body)
        if (old, new) == told:
            self.fault("the hunk is broken by a line that is none of context, - or +", "syntax")
        elif self._breaks():
            self.fault("this line is none of context, - or +, and the hunk is not at its end", "syntax")
        if (old, new) != told:
            self.fault(
                f"the hunk header counts {told[0]} old and {told[1]} new lines; the hunk has {old} and {new}",
                "counts",
                start,
            )

    def _breaks(self) -> bool:
        """True at a line that can neither be part of a hunk nor follow one."""
        line = self._line()
        return bool(line.strip()) and not self._starts_file() and not line.startswith(b"@@ ") and line not in _SIGNATURE

    def _counted(self, old: int, new: int) -> tuple[list[tuple[int, bytes]], bool]:
        body: list[tuple[int, bytes]] = []
        while old > 0 or new > 0:
            tag = self._line()[:1]
            if not self._take(body):
                return body, False
            old -= tag in {b" ", b"-", b"\n"}
            new -= tag in {b" ", b"+", b"\n"}
        if self._line().startswith(b"\\"):
            self._take(body)
        good = old == 0 and new == 0 and bool(body)
        return body, good and not self._goes_on()

    def _goes_on(self) -> bool:
        return (
            self._line()[:1] in {b" ", b"-", b"+", b"\\"} and self._line() not in _SIGNATURE and not self._starts_file()
        )

    def _scan(self) -> list[tuple[int, bytes]]:
        """The body as the lines show it, whatever the header counts."""
        body: list[tuple[int, bytes]] = []
        while self._goes_on() or (self._line() == b"\n" and self._line(1)[:1] in {b" ", b"-", b"+"}):
            if not self._take(body):
                break
        return body

    def _take(self, body: list[tuple[int, bytes]]) -> bool:
        """Move one line into the body; a no-newline mark takes the newline off the line before it."""
        line = self._line()
        if line.startswith(b"\\ ") and body and body[-1][1].endswith(b"\n"):
            body[-1] = (body[-1][0], body[-1][1][:-1])
        elif line == b"\n":  # editors strip the space of an empty context line; git reads it so too
            body.append((self.at, b" \n"))
        elif line[:1] in {b" ", b"-", b"+"}:
            body.append((self.at, line))
        else:
            return False
        self.at += 1
        return True

    def _check_body(self, start: int, body: list[tuple[int, bytes]]) -> None:
        if not any(text[:1] in {b"-", b"+"} for _, text in body):
            self.fault("the hunk changes nothing", "syntax", start)
        for tags in (b" -", b" +"):
            side = [(at, text) for at, text in body if text[:1] in tags]
            for at, text in side[:-1]:
                if not text.endswith(b"\n"):
                    self.fault("a no-newline mark, but more lines of the same side follow", "newline", at)
        self._check_endings(body)

    def _check_endings(self, body: list[tuple[int, bytes]]) -> None:
        old = {text.endswith(b"\r\n") for _, text in body if text[:1] != b"+" and text.endswith(b"\n")}
        added = [(at, text.endswith(b"\r\n")) for at, text in body if text[:1] == b"+" and text.endswith(b"\n")]
        expected = old or {crlf for _, crlf in added[:1]}
        odd = next((at for at, crlf in added if len(expected) == 1 and crlf not in expected), None)
        if odd is not None:
            ours, theirs = ("LF", "CRLF") if True in expected else ("CRLF", "LF")
            self.fault(
                f"mixed line endings: this added line ends in {ours}, the lines around it in {theirs}", "endings", odd
            )
