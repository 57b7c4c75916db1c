"""
The traffic and arithmetic of a loop kernel, of which the estimate of its time
(`dlc.schedule.estimate`) is made, and which `--explain` shows.

- Every memref once from memory, as far as the kernel touches it; again for each sweep over rows
  that do not fit in an SM.
- Every load that runs, where its conditions hold, from L2: not once a thread but once a warp where
  it does not vary along the innermost free axis, not again in a later sweep over a row that an SM
  can hold, and once for each SM where it is the same at all points of the outermost loops and takes
  half of an SM at most.
- Of a contraction in tiles, memory and arithmetic alone, what is computed of an operand once:
  what tiles fetch and compute again depends on their shape.
- A kernel of dependent sweeps uses only as many SMs as it has rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil, inf, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, MemRefType, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from dlc.analysis.loop.contraction import Contraction
from dlc.analysis.loop.loops import share_folded, share_held, trip_count
from dlc.dialects.axes import AxesOp, loops_around
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.loop import (
    ForOp,
    KernelOp,
    LoadOp,
    ReduceOp,
    ScanOp,
    StoreOp,
    has_ends_of_data,
    scans_in,
)
from dlc.ir.bounds import least, most
from dlc.ir.monoid import MONOIDS
from dlc.ir.scalar_ops import SCALARS
from dlc.ir.variance import Variance, variance
from dlc.target import BLOCK_THREADS, Target

_CONVERSIONS = arith.IndexCastOp | arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp
FOLDS_OF_SCAN = 3
"""Folds of a value that is scanned: onto those of its thread before it, in the exchange of threads,
and of what these had."""
NEIGHBOURS = 4
"""Elements of a load of neighbours."""
BEGUN = 2
"""Iterations of four operations that take as long as what a thread loads of L1."""


@dataclass(frozen=True)
class Work:
    """The traffic and arithmetic of one launch of a kernel."""

    flops: float
    memory_bytes: float
    l2_bytes: float
    units: float
    """The independent pieces of work that SMs can share; infinite if it can always be cut."""
    steps: int
    """The iterations that follow each other in a thread."""
    loads: float
    """Loads of threads, of four neighbours at once where they follow each other."""
    alone: bool
    """True if a thread takes whole rows: others of its block have none of its iterations."""


def work_of(
    kernel: KernelOp,
    target: Target,
    tiled: Contraction | None = None,
    held_bytes: int | None = None,
) -> Work:
    """
    The work of a kernel on a target, of which `tiled` is computed in tiles, and where what keeps a
    row from one sweep to the next has so many bytes, those of an SM if nothing is said.
    """
    walk = _Walk(kernel, target, tiled, held_bytes or target.shared_per_sm)
    walk.visit(kernel.body.block, 1)
    written = sum(_bytes(ref.type, _stored(kernel, ref)) for ref in kernel.output_refs)
    steps, alone = (0, False) if tiled else _steps(kernel.body.block)
    return Work(
        walk.flops,
        sum(walk.memory.values()) + written,
        sum(walk.l2.values()) + written,
        _units(kernel),
        steps,
        walk.loads,
        alone,
    )


def _stored(kernel: KernelOp, output: SSAValue) -> int:
    """The elements of an output that a kernel stores: all of new memory, if it is not partial."""
    if output not in kernel.updated_refs and output not in kernel.partial_refs:
        return _numel(output.type)
    stores = [use.operation for use in output.uses]
    points = (prod(trip_count(op) for op in loops_around(store)) for store in stores)
    return min(sum(points), _numel(output.type))


def _units(kernel: KernelOp) -> float:
    """Into how many independent pieces of work a kernel can be dealt to SMs: points of its outer
    loops, or pieces of a single reduce or pointwise sweep, which can always be split; a sweep that
    scans cannot."""
    units, block = 1, kernel.body.block
    while True:
        reduces = [op for op in block.ops if isinstance(op, ReduceOp)]
        loops = [op for op in block.ops if isinstance(op, ForOp)]
        dependent = len(reduces) + len(loops) > 1 or any(
            isinstance(o, ReduceOp) for r in reduces for o in r.body.walk()
        )
        if dependent or any(map(scans_in, loops)):
            return units
        if not loops:
            return float("inf")
        units *= trip_count(loops[0])
        block = loops[0].body.block


def _steps(block: Block) -> tuple[int, bool]:
    """
    The number of iterations that follow each other in a thread: outermost loops are dealt over
    blocks, the loops and reduces in them over the threads of a block; where there are loops in
    those, over nothing, since a thread takes the whole row then, of which it tells. A loop that
    scans is such a row.
    """
    if len(rows := [op for op in block.ops if isinstance(op, ForOp)]) == 1:
        if isinstance(block.parent_op(), KernelOp) and not scans_in(rows[0]):
            return _steps(rows[0].body.block)
    sweeps = [op for op in block.ops if isinstance(op, ForOp | ReduceOp)]
    if any(_serial(op.body.block) or has_ends_of_data(op) for op in sweeps):
        return _serial(block), True
    return sum(ceil(trip_count(op) / BLOCK_THREADS) * _waits(op) for op in sweeps), False


def _waits(sweep: ForOp | ReduceOp) -> int:
    """The iterations of four operations, one waiting for the other, that one iteration takes."""
    if isinstance(sweep, ForOp):
        return 1
    types = tuple(r.type for r in sweep.results)
    return ceil(fold_slots(sweep.monoid_name.data, types) / len(types) / 4)


def _serial(block: Block) -> int:
    """Of a thread: each loop begins when its first loads, of L1, have come."""
    loops = [op for op in block.ops if isinstance(op, ForOp | ReduceOp)]
    return sum(trip_count(op) * (1 + _serial(op.body.block)) + BEGUN for op in loops)


@dataclass
class _Walk:
    """Counts the operations of a kernel."""

    kernel: KernelOp
    target: Target
    tiled: Contraction | None
    held_bytes: int
    flops: float = 0
    loads: float = 0
    memory: dict[object, float] = field(default_factory=dict)
    l2: dict[object, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.along: Variance = variance(self.kernel)
        self.extents: dict[SSAValue, int] = {
            axis: op.hint(axis)
            for op in self.kernel.walk()
            if isinstance(op, AxesOp)
            for axis in op.axes
        }

    def visit(self, block: Block, points: int) -> None:
        """Counts a body that runs at so many points."""
        for op in block.ops:
            if isinstance(op, ForOp):
                self.visit(op.body.block, points * trip_count(op))
            elif isinstance(op, ReduceOp):
                self._reduce(op, points)
            elif isinstance(op, ScanOp):
                folds = FOLDS_OF_SCAN * fold_slots(op.monoid_name.data, tuple(op.result_types))
                self.flops += folds * points
            else:
                self._count(op, points)

    def _reduce(self, op: ReduceOp, points: int) -> None:
        inside = int(points * trip_count(op) * share_folded(op))
        self.flops += inside * fold_slots(op.monoid_name.data, tuple(r.type for r in op.results))
        if self.tiled is not None and op is self.tiled.reduce:
            self._tile(self.tiled, inside)
        else:
            self.visit(op.body.block, inside)

    def _tile(self, c: Contraction, points: int) -> None:
        for op in c.reduce.body.walk():
            varies = self.along[op.results[0]] if op.results else frozenset[SSAValue]()
            if isinstance(op, LoadOp):
                self._touch(op, points)
            elif not varies.intersection(c.columns):
                self.flops += flops_of(op) * points / prod(self.extents[a] for a in c.columns)
            elif not varies.intersection(c.rows):
                self.flops += flops_of(op) * points / prod(self.extents[a] for a in c.rows)
            else:
                self.flops += flops_of(op) * points

    def _count(self, op: Operation, points: int) -> None:
        if not isinstance(op, LoadOp):
            self.flops += points * flops_of(op)
            return
        points = ceil(points * share_held(op.where))
        self.loads += points / (NEIGHBOURS if self._follows(op) else 1)
        row = self._touch(op, points)
        outer = [a for a in self.along[op.result] if isinstance(a.owner, Block)]
        innermost = _innermost_axis(op)
        warp = 1 if innermost is None or innermost in outer else self.target.warp
        size = min(_bytes(op.ref.type, points / warp), self._shared_by_blocks(op, outer))
        self.l2[row] = max(self.l2.get(row, 0), size)

    def _follows(self, op: LoadOp) -> bool:
        """True if each iteration of a long innermost loop loads the element behind the last."""
        axis = _innermost_axis(op)
        if axis is None or not op.subscripts or self.extents[axis] < self.target.warp:
            return False
        return op.subscripts[-1].coefficient(axis) == 1

    def _shared_by_blocks(self, op: LoadOp, varies: Collection[SSAValue]) -> float:
        """
        The bytes that all SMs fetch, each for all of its blocks, of a load that is the same at all
        points of the outermost loops; infinite for any other, and for what an SM cannot hold.
        """
        outermost = _outermost_axes(op)
        if not outermost or not set(varies).isdisjoint(outermost):
            return inf
        size = _bytes(op.ref.type, min(_reach(op), prod(self.extents.get(a, 1) for a in varies)))
        return self.target.sms * size if size <= self.target.shared_per_sm // 2 else inf

    def _touch(self, op: LoadOp, points: int) -> object:
        """
        Counts what a load brings from memory; returns what is equal for the loads that share it:
        another sweep over the same rows, if an SM can hold a row.
        """
        outermost = _outermost_axes(op)
        varies = self.along[op.result]
        total = _numel(op.ref.type)
        touched = min(points, _reach(op), prod(self.extents.get(a, 1) for a in varies))
        rows = prod(self.extents[a] for a in varies if a in outermost)
        held = _bytes(op.ref.type, touched / max(rows, 1)) <= self.held_bytes
        sweep = (op.ref, None if held else op.parent)
        known = self.memory.get(sweep, 0)
        size = _bytes(op.ref.type, touched)
        names: dict[SSAValue, int] = {a: n for n, a in enumerate(outermost)}
        load = (op.ref, _signature(op, names) if held else op)
        if load not in self.l2:
            self.memory[sweep] = min(_bytes(op.ref.type, total), known + size)
        return load


def flops_alike(block: Block) -> float:
    """
    What reduces side by side compute of each point as another one does, all but the first: machine
    code has it once.
    """
    known = set[object]()
    found = 0.0
    for reduce in (op for op in block.ops if isinstance(op, ReduceOp)):
        names: dict[SSAValue, object] = {a: ("axis", n) for n, a in enumerate(reduce.axes)}
        extents = tuple(reduce.all_extents)
        for op in reduce.body.block.ops:
            if len(op.results) != 1 or op.regions:
                continue
            operands = tuple(names.get(value, value) for value in op.operands)
            attributes = tuple(sorted((key, op.properties[key]) for key in op.properties))
            name = (op.name, attributes, op.results[0].type, operands, extents)
            if name in known:
                found += flops_of(op) * trip_count(reduce)
            known.add(name)
            names[op.results[0]] = name
    return found


def _reach(op: LoadOp) -> int:
    """The elements that a load's subscripts can name."""
    sides = zip(op.subscripts, shape_of(op.ref.type), strict=True)
    return prod(int(min(most(at), extent - 1) - max(least(at), 0)) + 1 for at, extent in sides)


def _signature(op: LoadOp, names: dict[SSAValue, int]) -> object:
    """
    The subscripts of a load, its axes other than the outermost not told apart; what is data is.
    """
    told = (v if isinstance(v.owner, Operation) else names.get(v, -1) for v in op.indices)
    return op.map, op.conditions, tuple(told)


def _outermost_axes(op: Operation) -> Sequence[BlockArgument]:
    loops = loops_around(op)
    return loops[0].axes if loops and isinstance(loops[0], ForOp) else ()


def _innermost_axis(op: Operation) -> BlockArgument | None:
    """The last axis of the innermost loop around `op`."""
    loops = loops_around(op)
    return loops[-1].axes[-1] if loops and loops[-1].axes else None


def flops_of(op: Operation) -> float:
    """
    The cost of arithmetic in issue slots: two for 64 bits of integers, 0 where what is computed is
    a subscript or a boolean.
    """
    if isinstance(op, LoadOp | StoreOp) or not op.results or op.name == "arith.constant":
        return 0
    if isinstance(result := op.results[0].type, IntegerType):
        return 0 if isinstance(op, _CONVERSIONS) else ceil(result.bitwidth / 32) * (result != i1)
    if not isinstance(result, AnyFloat):
        return 0
    return SCALARS[op.name].cost if op.name in SCALARS else 1


@cache
def fold_slots(monoid: str, types: tuple[Attribute, ...]) -> float:
    """The cost of folding an element in issue slots: one for each value at least."""
    return max(len(types), sum(map(flops_of, MONOIDS[monoid].combined(types).ops)))


def _numel(type: object) -> int:
    assert isinstance(type, MemRefType)
    return prod(shape_of(type))


def _bytes(type: object, elements: float) -> float:
    assert isinstance(type, MemRefType)
    return elements * element_bytes(type.element_type)
