"""A file as lines, and the search for where a run of lines stands."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

_SCANS = 32
"""Searches of one file after which an index of its lines is cheaper than scanning it again."""


class Text:
    """Lines with their newlines (only LF ends a line), and where each line occurs."""

    __slots__ = ("_lines", "_scans", "_where", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._lines: list[bytes] | None = None
        self._where: dict[bytes, list[int]] | None = None
        self._scans = 0

    @property
    def lines(self) -> list[bytes]:
        """All lines, split when first asked for."""
        if self._lines is None:
            self._lines = io.BytesIO(self.data).readlines()
        return self._lines

    def fits(self, wanted: Sequence[bytes], at: int) -> bool:
        """True when the lines stand at the 0-based index."""
        return 0 <= at <= len(self.lines) - len(wanted) and self.lines[at : at + len(wanted)] == list(wanted)

    def where(self, line: bytes) -> Sequence[int]:
        """Every 0-based index at which this very line stands."""
        if self._where is None:
            self._where = {}
            for index, text in enumerate(self.lines):
                self._where.setdefault(text, []).append(index)
        return self._where.get(line, ())

    def places(self, wanted: Sequence[bytes]) -> Iterator[int]:
        """Every place at which the lines stand, in order."""
        if not wanted:
            return iter(())
        self._scans += 1
        return self._scanned(b"".join(wanted)) if self._scans <= _SCANS else self._indexed(wanted)

    def _scanned(self, wanted: bytes) -> Iterator[int]:
        at, line, counted = self.data.find(wanted), 0, 0
        while at >= 0:
            starts = at == 0 or self.data[at - 1 : at] == b"\n"
            ends = wanted.endswith(b"\n") or at + len(wanted) == len(self.data)
            if starts and ends:
                line, counted = line + self.data.count(b"\n", counted, at), at
                yield line
            at = self.data.find(wanted, at + 1)

    def _indexed(self, wanted: Sequence[bytes]) -> Iterator[int]:
        """Found by the rarest of the lines."""
        rare = min(range(len(wanted)), key=lambda i: len(self.where(wanted[i])))
        for index in self.where(wanted[rare]):
            if self.fits(wanted, index - rare):
                yield index - rare
