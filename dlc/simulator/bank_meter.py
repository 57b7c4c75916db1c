"""Bank conflicts of shared memory as they happen, against what the bank model promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from dlc.analysis.kernel.banks import BANK_BYTES, BANKS, phases, wavefronts
from dlc.simulator.hazards import Access, Hazard
from dlc.target import WARP

Promises: TypeAlias = Mapping[tuple[str, bool, int], float]
"""The ways of the reads (True: writes) of a buffer, by its name, that take so many bytes."""
_TOLERANCE = 1e-6


@dataclass
class Measured:
    """The accesses of an operation by the warps of the blocks that are looked at."""

    name: str
    writes: bool
    width: int
    """Bytes that a thread accesses at once."""
    wavefronts: int = 0
    least: int = 0
    """The wavefronts without conflicts."""
    worst: float = 0
    witnesses: tuple[Access, ...] = ()
    """Two threads that meet in a bank, in the warp that takes most wavefronts."""

    @property
    def ways(self) -> float:
        return self.wavefronts / max(self.least, 1)

    def __str__(self) -> str:
        verb = "writes" if self.writes else "reads"
        return f"{verb} of %{self.name}, {self.width} bytes at once"


@dataclass(frozen=True)
class _Pattern:
    """What a relative arrangement of addresses costs."""

    wavefronts: int
    least: int
    worst: float
    clash: tuple[int, int] | None
    """Two of the threads that meet in a bank, where most do."""


class BankMeter:
    """Counts the wavefronts that the warps of one block of those that run together take."""

    def __init__(self) -> None:
        self.measured: dict[Operation, Measured] = {}
        self._patterns: dict[tuple[bytes, bytes, int], _Pattern] = {}

    def note(
        self,
        access: Access,
        name: str,
        writes: bool,
        addresses: NDArray[np.int64],
        threads: NDArray[np.int64],
        width: int,
    ) -> None:
        """Threads of a block, the first of which makes `access`, access `width` bytes each."""
        moved = addresses - addresses[0] // BANK_BYTES * BANK_BYTES
        key = moved.tobytes(), threads.tobytes(), width
        if (pattern := self._patterns.get(key)) is None:
            pattern = self._patterns[key] = _judge(moved, threads, width)
        found = self.measured.setdefault(access.op, Measured(name, writes, width))
        found.wavefronts += pattern.wavefronts
        found.least += pattern.least
        if pattern.worst > found.worst:
            found.worst = pattern.worst
            found.witnesses = tuple(
                Access(access.op, access.block, thread, access.iteration)
                for thread in pattern.clash or ()
            )

    def broken(self, promises: Promises) -> Iterator[Hazard]:
        """The operations with more conflicts than were promised of their buffers."""
        for op, found in self.measured.items():
            promised = promises.get((found.name, found.writes, found.width))
            if promised is not None and found.ways > promised + _TOLERANCE:
                sentence = (
                    f"{found} take {found.ways:.3g} ways ({found.worst:.3g} at worst), and the "
                    f"bank model promises {promised:.3g}"
                )
                yield Hazard("bank conflict", op, sentence, found.witnesses)

    def unjudged(self, promises: Promises) -> list[str]:
        """Conflicts of which nothing was promised, such as those of what a warp combines."""
        ways: dict[str, float] = {}
        for found in self.measured.values():
            if (found.name, found.writes, found.width) not in promises and found.ways > 1:
                ways[str(found)] = max(found.ways, ways.get(str(found), 0))
        return [f"{what}: {n:.3g} ways" for what, n in ways.items()]


def _judge(addresses: NDArray[np.int64], threads: NDArray[np.int64], width: int) -> _Pattern:
    total = least = 0
    worst, clash = 0.0, None
    for warp in np.unique(threads // WARP).tolist():
        lanes: list[int | None] = [None] * WARP
        for thread, address in zip(threads.tolist(), addresses.tolist(), strict=True):
            if thread // WARP == warp:
                lanes[thread % WARP] = address
        taken, needed = wavefronts(lanes, width), len(phases(lanes, width))
        total, least = total + taken, least + needed
        if taken / needed > worst:
            worst = taken / needed
            pair = _clash(lanes, width)
            clash = pair and (warp * WARP + pair[0], warp * WARP + pair[1])
    return _Pattern(total, least, worst, clash)


def _clash(lanes: list[int | None], width: int) -> tuple[int, int] | None:
    """Two lanes of a phase whose first words are different ones of a bank."""
    size = min(WARP, BANKS * BANK_BYTES // width)
    for start in range(0, WARP, size):
        words: dict[int, tuple[int, int]] = {}
        for lane in range(start, start + size):
            if (address := lanes[lane]) is None:
                continue
            word = address // BANK_BYTES
            other = words.setdefault(word % BANKS, (word, lane))
            if other[0] != word:
                return other[1], lane
    return None
