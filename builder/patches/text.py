"""A file as lines, with the index that finds where a run of lines stands."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence


class Text:
    """Lines with their newlines (only LF ends a line), and where each line occurs."""

    __slots__ = ("_where", "lines")

    def __init__(self, data: bytes) -> None:
        self.lines = io.BytesIO(data).readlines()
        self._where: dict[bytes, list[int]] | None = None

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
        """Every place at which the lines stand, in order; found by the rarest of them."""
        if not wanted:
            return
        rare = min(range(len(wanted)), key=lambda i: len(self.where(wanted[i])))
        for index in self.where(wanted[rare]):
            if self.fits(wanted, index - rare):
                yield index - rare
