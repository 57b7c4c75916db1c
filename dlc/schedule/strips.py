"""
The deal of a register tile's points to threads, decided for `permute-register-tile`.

The order is the one with the fewest conflicts (`dlc.analysis.kernel.banks`) under which no load
from shared memory becomes narrower, in the layouts that `pad-smem` or `split-inner-for-swizzle` can
give the buffers; then with the fewest sectors of global memory, instructions, and conflicts in the
present layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, BlockArgument

from dlc.analysis.kernel.bank_accesses import (
    BankAccess,
    read_of,
    reads_of,
    report_global,
    shared_loads,
)
from dlc.analysis.kernel.layout import group_padded, padded, swizzled
from dlc.analysis.tile.fragments import Buffer, shared_by
from dlc.analysis.tile.register_pairs import Pair, register_pairs
from dlc.dialects import tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.ring_ops import slot_type
from dlc.ir.analyses import Analyses
from dlc.ir.cached import cached

WIDTHS = (4, 2)
"""Elements of a strip: 16 or 8 bytes of 4-byte elements."""

Strips = Mapping[Pair, int]
"""The number of neighbouring elements of a pair of axes that a thread owns; 1: every T-th."""


def choose_strips(
    kernel: tile.KernelOp, permute: Callable[[tile.LaunchOp, Strips], None]
) -> tuple[Strips, list[str]]:
    """
    The strips of those pairs that are better dealt out anew, and what each gains. `permute` deals
    the pairs of a launch out.
    """
    launch, before = kernel.launch, _Cost(kernel)
    chosen: dict[Pair, int] = {}
    notes: list[str] = []
    for pair in register_pairs(launch):
        best, others = before, _loads_without(kernel, pair)
        for strip in _tried(launch.extent(launch.axes[pair.register])):
            trial = kernel.clone()
            permute(trial.launch, {pair: strip})
            cost = _Cost(trial, before, others)
            if cost.no_narrower(before) and cost.is_less(best):
                best, chosen[pair] = cost, strip
            trial.erase()
        if pair in chosen:
            names = ", ".join(f"%{launch.axes[n].name_hint}" for n in (pair.thread, pair.register))
            notes.append(f"{names} {dealt(chosen[pair])}: {best.against(before)}")
    return chosen, notes


def dealt(strip: int) -> str:
    """Strips of so many elements in words."""
    return "interleaved" if strip == 1 else f"in strips of {strip}"


def _tried(extent: int) -> Iterator[int]:
    """The strips that can be better for a register axis of so many points."""
    strip = next((n for n in WIDTHS if extent % n == 0), extent)
    if strip < extent:
        yield strip
    yield 1


@dataclass(frozen=True)
class _Cost:
    """
    The cost of a kernel's accesses for a warp, computed when it is first asked for. Of an order
    that is chosen every cost has been computed, so that it stays known without the trial.
    """

    kernel: tile.KernelOp
    like: _Cost | None = None
    """The cost of a kernel with the same loads, some of which are the same."""
    same: frozenset[int] = frozenset()
    """The numbers of these."""
    analyses: Analyses = field(default_factory=Analyses)
    """The analyses of the kernel, which is not changed meanwhile."""

    @cached
    def reads(self) -> list[BankAccess]:
        """The loads from shared memory with their costs, in program order."""
        known = {n: self.like.reads[n] for n in self.same} if self.like else {}
        return [
            replace(known[n], op=op, buffer=shared_by(op.ref))
            if n in known
            else read_of(self.kernel, op, self.analyses)
            for n, op in enumerate(self.analyses.get(shared_loads, self.kernel))
        ]

    @cached
    def relieved_of(self) -> list[float]:
        """Wavefronts lost to conflicts when a buffer has its best layout, for each buffer."""
        of: dict[Buffer, set[int]] = {}
        for n, access in enumerate(self.reads):
            of.setdefault(access.buffer, set()).add(n)
        return [
            self.like.relieved_of[number]
            if self.like and loads <= self.same
            else _relieved(self.kernel, buffer, self.reads, self.analyses)
            for number, (buffer, loads) in enumerate(of.items())
        ]

    @property
    def relieved(self) -> float:
        """Wavefronts lost to conflicts when each buffer has its best layout."""
        return sum(self.relieved_of)

    @cached
    def present(self) -> tuple[float, int, float]:
        """Sectors of global memory touched, instructions, and conflicts in the present layouts."""
        others = report_global(self.kernel, self.analyses)
        return (
            sum(a.times * a.sectors for a in others),
            sum(a.times for a in (*self.reads, *others)),
            sum(a.excess for a in self.reads),
        )

    def is_less(self, other: _Cost) -> bool:
        """True if an order is better. None loses less than nothing in the best layouts."""
        if other.relieved == 0 and self.present >= other.present:
            return False
        return (self.relieved, self.present) < (other.relieved, other.present)

    def no_narrower(self, other: _Cost) -> bool:
        """True if every load from shared memory is at least as wide as under another order."""
        return all(a.width >= b.width for a, b in zip(self.reads, other.reads, strict=True))

    def against(self, other: _Cost) -> str:
        """The gain over another order, in words for the report."""
        gains = [
            f"reads of {new.name} from {old.ways:.3g} ways to {new.ways:.3g}"
            for new, old in zip(self.reads, other.reads, strict=True)
            if new.ways < old.ways
        ]
        if not gains and self.relieved < other.relieved:
            gains.append("fewer conflicts once padded or swizzled")
        (now, *_), (then, *_) = self.present, other.present
        if now < then:
            gains.append(f"sectors of global memory from {then:g} to {now:g}")
        return ", ".join(dict.fromkeys(gains)) or "fewer instructions"


def _loads_without(kernel: tile.KernelOp, pair: Pair) -> frozenset[int]:
    """The numbers of the loads from shared memory that do not mention a pair of axes."""
    axes = {kernel.launch.axes[pair.thread], kernel.launch.axes[pair.register]}
    return frozenset(
        n
        for n, op in enumerate(shared_loads(kernel))
        if all(isinstance(i, BlockArgument) and i not in axes for i in op.indices)
    )


def _relieved(
    kernel: tile.KernelOp, buffer: Buffer, reads: Sequence[BankAccess], analyses: Analyses
) -> float:
    """Wavefronts that the loads of a buffer lose to conflicts in the best layout it can get."""
    type, mine = buffer.result.type, [a for a in reads if a.buffer is buffer]
    assert isinstance(type, MemRefType)
    best = sum(a.excess for a in mine)
    slab = slot_type(type) if isinstance(buffer, tile.RingOp) else type
    if not best or slab.get_num_dims() < 2:
        return best
    unit = max(a.width for a in mine) // element_bytes(type.element_type)
    unit = max(unit, 1)
    for layout in _layouts(type, unit):
        best = min(best, sum(a.excess for a in reads_of(kernel, buffer, layout, analyses)))
        if not best:
            break
    return best


def _layouts(type: MemRefType[Attribute], unit: int) -> Iterator[MemRefType[Attribute]]:
    """The type with each of the layouts that can relieve conflicts, the usual one first."""
    yield padded(type, unit)
    yield from group_padded(type, unit)
    yield from swizzled(type)[:1]
