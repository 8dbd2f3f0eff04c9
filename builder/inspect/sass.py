"""Counts instruction classes in machine code and sees kernels that never end well or do nothing.

From 7.0 to 12.1 an instruction is two little-endian 64-bit words. The low 9 bits of the first are
the operation, bits 9..11 its operand form, bits 12..15 the guard (7: always, 15: never). Which number is
which operation was read off nvdisasm's output; benchmarks/agreement.py proves it again on any wheel. NVIDIA
offers no library for this, and its disassembler takes minutes for what takes numpy a fraction of a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from builder.errors import InspectError
from builder.inspect.elf import CodeSections
from builder.inspect.facts import CLASSES, NO_COUNTS, Counts

OLDEST = 70
"""Below 7.0 instructions are 64 bits and none of the classes exists; such code is not scanned."""

_CLASS_OF = {
    0x07F: "OMMA",
    0x07A: "QMMA",
    0x03C: "HMMA",
    0x037: "IMMA",
    0x1F0: "HGMMA",
    0x1F1: "IGMMA",
    0x1F3: "QGMMA",
    0x1EA: "UTCMMA",
}
_F2FP, _BPT, _EXIT, _BRA, _BRX, _JMP, _JMX, _BRXU, _JMXU = 0x03E, 0x15C, 0x14D, 0x147, 0x149, 0x14A, 0x14C, 0x158, 0x159
_CALL, _RET, _RTT, _KILL, _BSYNC, _BSSY, _WARPSYNC = 0x144, 0x150, 0x14F, 0x15B, 0x141, 0x145, 0x148
_ANYWHERE = frozenset({_BRX, _BRXU, _JMP, _JMX, _JMXU})
_STOPS = frozenset({_BRA, _BRX, _JMP, _JMX, _BRXU, _JMXU, _RET, _RTT, _KILL, _BPT})
_CONTROL = (_EXIT, _BRA, _BRX, _JMP, _JMX, _BRXU, _JMXU, _CALL, _RET, _RTT, _KILL, _BSYNC, _BSSY, _WARPSYNC, _BPT)
_IDLE = frozenset({0x118, 0x002, 0x024, 0x182, 0x0B9, 0x1AB, 0x1AC, 0x119, 0x1C3, 0x005, 0x082, 0x02D, 0x02E})
"""NOP, MOV, IMAD (as a move), LDC, ULDC, LDCU, S2R, S2UR, CS2R, UMOV, PREEXIT and ACQBULK (griddepcontrol): what may
precede an empty kernel's EXIT."""

_TELLING = _IDLE | {0x00C, 0x010, 0x012, 0x031, 0x035, 0x036, 0x143, 0x14D, 0x14E, 0x187}
"""ISETP, IADD3, LOP3, HFMA2 (as a move), IADD.64, VIADD, CALL.ABS, EXIT for some threads, LEPC, STL: what besides may
precede the EXIT of a kernel that only prints. Arguments lie in local memory, and printf is called by its address."""

_TRAPPED, _INTERRUPTED = 3, 4
"""Modes of BPT: ptxas makes TRAP of PTX's trap and brkpt alike: without a debugger either ends the grid with an error.

INT is a debugger's own and no compiler's; where it stands nothing is done either.
"""

_NEVER, _ALWAYS, _PLAIN = 15, 7, 0x800
_SURE_EXIT = _ALWAYS << 12 | _PLAIN | _EXIT
_IDLE_LENGTH, _TELLING_LENGTH = 8, 64
_FIRST_CONTROL, _STOP_BIT = 64, 128
_PIECE = 1 << 16
_FP4, _FP8 = CLASSES.index("F2FP.E2M1"), CLASSES.index("F2FP.FP8")
_TRAP = CLASSES.index("BPT.TRAP")

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class KernelScan:
    """What one kernel's instructions show."""

    counts: Counts = NO_COUNTS
    trap_only: bool = False
    empty: bool = False


def _codes() -> npt.NDArray[np.uint8]:
    """Code of each low 16 bits: class index + 1, `_FIRST_CONTROL` + index of a control operation, or 0.

    `_STOP_BIT` is set where execution may not go on to the next instruction.
    """
    table = np.zeros(1 << 16, np.uint8)
    low = np.arange(1 << 16)
    operation, guard = low & 0x1FF, low >> 12
    for number, name in _CLASS_OF.items():
        table[operation == number] = CLASSES.index(name) + 1
    table[operation == _F2FP] = _FP4 + 1
    for index, number in enumerate(_CONTROL):
        table[operation == number] = _FIRST_CONTROL + index
        if number in _STOPS:
            table[(operation == number) & (guard == _ALWAYS)] |= _STOP_BIT
    table[(table >= _FIRST_CONTROL) & (guard == _NEVER)] = 0
    return table


_CODE_OF = _codes()
_LOW_BYTES = bytes(_CODE_OF.reshape(256, 256).any(axis=0).tolist())
"""1 for the low bytes that any coded operation has: a first sieve, ten times as fast as `_CODE_OF` itself."""

_NO_CLASS, _COLUMNS = len(CLASSES), 16
_COLUMN_OF = np.full(256, _NO_CLASS, np.uint8)
_COLUMN_OF[1 : _NO_CLASS + 1] = np.arange(_NO_CLASS)
"""Column of each code in a table of counts: its class, or `_NO_CLASS`."""


def scan(
    image: memoryview | bytes, code: CodeSections, sm: int, where: str = "", *, prints: bool = False
) -> Iterator[KernelScan]:
    """One record per section of code, in their order. `sm` is the architecture's number (120 of sm_120f).

    `prints` says that printf is among what the image calls: a kernel that does nothing else is empty too.
    Raises InspectError where code is not whole instructions or sections overlap.
    """
    if sm < OLDEST or not len(code.starts):
        yield from (KernelScan() for _ in code.starts)
        return
    run = _Code.of(image, code, sm, where)
    points = (run.code & (_STOP_BIT - 1) == _control(_BPT)).nonzero()[0]
    length, idle = (_TELLING_LENGTH, _TELLING) if prints else (_IDLE_LENGTH, _IDLE)
    trapped, empty = run.trap_only(points), run.empty(length, idle)
    for index, counts in enumerate(run.counts(points).tolist()):
        yield KernelScan(tuple(counts), index in trapped, index in empty)


@dataclass(frozen=True, slots=True)
class _Code:
    """All code of a cubin as one run of instructions, and where the interesting ones are.

    `starts` and `ends` are instruction numbers; `at`, `code` and `owner` are parallel: place, code and kernel. The code
    is 0 of what the sieve let through for nothing, or lies between two sections.
    """

    words: Words
    sm: int
    starts: Ints
    ends: Ints
    at: Ints
    code: npt.NDArray[np.uint8]
    owner: Ints

    @classmethod
    def of(cls, image: memoryview | bytes, sections: CodeSections, sm: int, where: str) -> _Code:
        low, ends = int(sections.starts[0]), sections.starts + sections.sizes
        if (
            ((sections.starts - low) % 16).any()
            or (sections.sizes % 16).any()
            or (ends[:-1] > sections.starts[1:]).any()
        ):
            raise InspectError(
                "a kernel's code is cut short or overlaps another's",
                where=where,
                expected=f"16-byte instructions of sm_{sm}, each kernel in a place of its own",
                remedy="the cubin is damaged: fetch or build it again",
            )
        count = (int(ends[-1]) - low) // 16
        words: Words = np.frombuffer(image, "<u8", count * 2, low)
        starts, ends = (sections.starts - low) // 16, (ends - low) // 16
        at, code = _coded(image, low, count)
        held = np.diff(at.searchsorted(np.array((starts, ends)).T.ravel()))  # in a section, in a gap, …
        part = np.arange(len(held))
        if held[1::2].any():
            code[(part % 2 == 1).repeat(held)] = 0
        return cls(words, sm, starts, ends, at, code, (part // 2).repeat(held))

    def counts(self, points: Ints) -> npt.NDArray[Any]:
        """A row per kernel, a column per class; `points` are the breakpoints and traps among the coded instructions."""
        column = _COLUMN_OF.take(self.code)
        convert = (column == _FP4).nonzero()[0]
        if len(convert):
            column[convert] = _convert_class(self._second(convert))
        if len(points):
            column[points[_is_trap(self._second(points))]] = _TRAP
        rows = np.bincount(self.owner * _COLUMNS + column, minlength=len(self.starts) * _COLUMNS)
        return rows.reshape(-1, _COLUMNS)[:, : len(CLASSES)]

    def _second(self, chosen: Ints) -> Words:
        return self.words[self.at[chosen] * 2 + 1]

    def trap_only(self, points: Ints) -> set[int]:
        """Kernels of which no path from the entry reaches EXIT.

        ptxas drops what nothing reaches, so an EXIT in a kernel without a trap needs no search.
        """
        count = len(self.starts)
        exits = np.bincount(self.owner[self.code == _control(_EXIT)], minlength=count) > 0
        lost = set((~exits).nonzero()[0].tolist())
        if not len(points):
            return lost
        control = np.flatnonzero(self.code >= _FIRST_CONTROL)
        code, owner = self.code[control], self.owner[control]
        traps = np.bincount(self.owner[points], minlength=count) > 0
        doubtful = np.flatnonzero(exits & traps & ~_straight_to_exit(code, owner, count))
        first, last = (np.searchsorted(owner, doubtful, side) for side in ("left", "right"))
        searched = zip(doubtful.tolist(), first.tolist(), last.tolist(), strict=True)
        return lost | {kernel for kernel, a, b in searched if not self._reaches_exit(kernel, control[a:b])}

    def _reaches_exit(self, kernel: int, control: Ints) -> bool:
        places = self.at[control]
        start, end = int(self.starts[kernel]), int(self.ends[kernel])
        first, second = self.words[places * 2], self.words[places * 2 + 1]
        flow = _Flow(places.tolist(), first.tolist(), second.tolist(), self.sm, start, end)
        return flow.reaches_exit()

    def empty(self, length: int, idle: AbstractSet[int]) -> set[int]:
        """Kernels in which nothing but idle instructions stands before an early unconditional EXIT."""
        exits = (self.code == _control(_EXIT)).nonzero()[0]
        early = exits[self.at[exits] - self.starts[self.owner[exits]] < length]
        sure = early[self.words[self.at[early] * 2] & np.uint64(0xFFFF) == _SURE_EXIT]
        return {kernel for kernel in set(self.owner[sure].tolist()) if self._is_empty(kernel, length, idle)}

    def _is_empty(self, kernel: int, length: int, idle: AbstractSet[int]) -> bool:
        start = int(self.starts[kernel])
        for place in range(start, min(start + length, int(self.ends[kernel]))):
            word = int(self.words[place * 2])
            if word & 0xFFFF == _SURE_EXIT:
                return True
            if word & 0x1FF not in idle:
                return False
        return False


def _coded(image: memoryview | bytes, low: int, count: int) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Places and codes of what the sieve lets through of `count` instructions from byte `low` on.

    In pieces, so that the second look finds in a core's cache what the first has brought there.
    """
    first, halves = (np.frombuffer(image, kind, count * 16 // size, low) for kind, size in (("u1", 1), ("<u2", 2)))
    places, codes = [], []
    for start in range(0, count, _PIECE):
        sieved = first[start * 16 : (start + _PIECE) * 16 : 16].tobytes().translate(_LOW_BYTES)
        at = np.frombuffer(sieved, bool).nonzero()[0] + start
        places.append(at)
        codes.append(_CODE_OF.take(halves.take(at * 8)))
    return np.concatenate(places), np.concatenate(codes)


def _control(operation: int) -> int:
    return _FIRST_CONTROL + _CONTROL.index(operation)


def _straight_to_exit(code: npt.NDArray[np.uint8], owner: Ints, kernels: int) -> npt.NDArray[np.bool_]:
    """Kernels in which an EXIT, guarded or not, comes before anything that stops the straight way: most of them."""
    first_exit = _first_of(owner, code == _control(_EXIT), kernels)
    first_stop = _first_of(owner, code & _STOP_BIT != 0, kernels)
    settled: npt.NDArray[np.bool_] = first_exit < first_stop
    return settled


def _first_of(owner: Ints, chosen: npt.NDArray[np.bool_], kernels: int) -> Ints:
    """Per kernel the first chosen position in the (sorted) control instructions, or one past the last."""
    found = np.full(kernels, len(owner), np.int64)
    places = np.flatnonzero(chosen)[::-1]
    found[owner[places]] = places  # the last that is written of a kernel's is its first
    return found


def _is_trap(second: Words) -> npt.NDArray[np.bool_]:
    trap: npt.NDArray[np.bool_] = (second >> np.uint64(20)) & np.uint64(7) == _TRAPPED
    return trap


def _convert_class(second: Words) -> npt.NDArray[np.uint8]:
    """FP4, FP8 or no class for each F2FP, by the format bits of its second word."""
    form = (second >> np.uint64(8)) & np.uint64(0xFFFFFF)
    pack, unpack = form & np.uint64(0x4E000), form & np.uint64(0x20C06)
    kind = np.full(len(second), _NO_CLASS, np.uint8)
    kind[(pack == 0x42000) | (unpack == 0x20402)] = _FP4
    kind[(pack == 0x48000) | (unpack == 0x20004) | (unpack == 0x20006)] = _FP8
    return kind


@dataclass(frozen=True, slots=True)
class _Flow:
    """The control flow of one kernel: the places and words of its control instructions."""

    places: list[int]
    first: list[int]
    second: list[int]
    sm: int
    start: int
    end: int

    def reaches_exit(self) -> bool:
        """Search from the entry. A call is taken to return; an indirect branch or a jump by address to go anywhere."""
        todo, seen, met = [self.start], set(), False
        while todo:
            index = bisect_left(self.places, todo.pop())
            if index >= len(self.places) or index in seen:
                continue
            seen.add(index)
            operation = self.first[index] & 0x1FF
            if operation == _EXIT or (operation in _ANYWHERE and self._has_exit()):
                return True
            if operation == _BSYNC and not met:
                todo, met = [*todo, *self._barrier_targets()], True
            todo += [place for place in self._next(index, operation) if self.start <= place < self.end]
        return False

    def _has_exit(self) -> bool:
        return any(word & 0x1FF == _EXIT for word in self.first)

    def _next(self, index: int, operation: int) -> list[int]:
        after = self.places[index] + 1
        mode = self.second[index] >> 20 & 7
        ends = operation in {_RET, _RTT, _KILL} or (operation == _BPT and mode in {_TRAPPED, _INTERRUPTED})
        if operation == _CALL or (operation == _WARPSYNC and self.second[index] >> 22 & 1):
            return [self._target(index), after]
        if operation == _BRA:
            return [self._target(index)] if self._unconditional(index) else [self._target(index), after]
        if ends and self.first[index] >> 12 & 15 == _ALWAYS:
            return []
        return [after]

    def _unconditional(self, index: int) -> bool:
        word = self.first[index]
        return word & 0xFE00 == _ALWAYS << 12 | _PLAIN and (self.second[index] >> 18) & 0x3FFF == 0xE0

    def _target(self, index: int) -> int:
        """The instruction that a relative branch goes to."""
        word, more = self.first[index], self.second[index]
        units, bits = word >> 34 | (more & 0x3FFFF) << 30, 48
        if self.sm >= 90:
            units, bits = units << 8 | word >> 16 & 0xFF, 56
        if units >> (bits - 1):
            units -= 1 << bits
        return self.places[index] + 1 + units // 4

    def _barrier_targets(self) -> Iterator[int]:
        """Where threads may meet again: a BSYNC goes on at the place its BSSY named, any of them."""
        for index, word in enumerate(self.first):
            if word & 0x1FF == _BSSY and self.start <= (place := self.places[index] + 1 + (word >> 34) // 4) < self.end:
                yield place
