"""Bank conflicts of shared memory as they happen, against what the bank model promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from dlc.analysis.kernel.bank_accesses import report
from dlc.analysis.kernel.banks import phases, wavefronts
from dlc.dialects import tile
from dlc.dialects.access import StoreOpBase
from dlc.dialects.kernel import CpAsyncOp
from dlc.simulator import Access, run_module
from dlc.simulator.address_space import Memory
from dlc.target import BANK_BYTES, BANKS, WARP

Promises: TypeAlias = Mapping[tuple[str, bool, int], float]
"""The ways of the reads (True: writes) of a buffer, by its name, that take so many bytes."""
_TOLERANCE = 1e-6


class BankConflict(Exception):
    """An operation has more bank conflicts than were promised."""


def promises_of(module: ModuleOp) -> dict[str, Promises]:
    """What the bank model says of every Tile IR kernel of a module."""
    found: dict[str, Promises] = {}
    for op in module.walk():
        if isinstance(op, tile.KernelOp):
            ways: dict[tuple[str, bool, int], float] = {}
            for access in report(op):
                key = access.name, access.writes, access.width
                ways[key] = max(ways.get(key, 0.0), access.ways)
            found[op.name_] = ways
    return found


def run_measured(
    module: ModuleOp, inputs: Sequence[NDArray[Any]], promises: Mapping[str, Promises]
) -> tuple[list[NDArray[Any]], dict[str, BankMeter]]:
    """
    The results of `@main`, and by the names of kernels what was measured. BankConflict for what
    was not promised.
    """
    meters: dict[str, BankMeter] = {}
    results = run_module(
        module, inputs, lambda func: meters.setdefault(func.name_, BankMeter()).note
    )
    for name, meter in meters.items():
        for conflict in meter.broken(promises.get(name, {})):
            raise conflict
    return results, meters


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
        memory: Memory,
        op: Operation,
        elements: NDArray[np.int64],
        lanes: NDArray[np.int64],
        width: int,
    ) -> None:
        """Lanes access so many elements each: of the first block it is noted."""
        threads = lanes[lanes < memory.machine.threads]
        if len(threads):
            addresses = elements[: len(threads)] * memory.bytes
            writes = isinstance(op, StoreOpBase | CpAsyncOp)
            access = memory.machine.access(op, int(threads[0]))
            name, width = memory.name[1:], width * memory.bytes
            self._note(access, name, writes, addresses, threads, width)

    def _note(
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

    def broken(self, promises: Promises) -> Iterator[BankConflict]:
        """The operations with more conflicts than were promised of their buffers."""
        for found in self.measured.values():
            promised = promises.get((found.name, found.writes, found.width))
            if promised is not None and found.ways > promised + _TOLERANCE:
                sentence = (
                    f"{found} take {found.ways:.3g} ways ({found.worst:.3g} at worst), and the "
                    f"bank model promises {promised:.3g}"
                )
                yield BankConflict("\n  ".join([sentence, *map(str, found.witnesses)]))

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
