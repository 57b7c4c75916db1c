"""
What a loop kernel costs on a target: the estimate that fusion decides by.

A kernel takes the launch overhead and then the longest of: its arithmetic at the chip's rate, its
bytes at the memory's rate, its loads at the L2 cache's rate (a roofline; Williams et al.,
"Roofline: an insightful visual performance model", CACM 2009), and the iterations that a thread
does one after the other. What is counted:

- Every memref once from memory, as far as the kernel touches it; again for each sweep over rows
  that do not fit in an SM.
- Every load that runs, from L2: not once a thread but once a warp where it does not vary along the
  innermost free axis, and not again in a later sweep over a row that an SM can hold.
- In a contraction that can be tiled, an operand is read, and what is inlined in it computed, once
  per block along the axes that only the other operand has: a block computes each element of a
  staged operand once (`stage-inputs`), and a row of blocks as often as it has blocks.
- A kernel of dependent sweeps uses only as many SMs as it has rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from dlc.analysis.contraction import Contraction, contraction_of
from dlc.analysis.loops import trip_count
from dlc.dialects.axes import AxesOp, loops_around
from dlc.dialects.kernel import element_bytes
from dlc.dialects.loop import ForOp, KernelOp, LoadOp, ReduceOp, StoreOp
from dlc.ir.variance import Variance, variance
from dlc.schedule.target import Target

TILE = 128
"""The extent of a contraction's tile along rows and along columns."""

INLINED = 2
"""What an operation costs beside a multiply-add, which counts two and takes one instruction."""

THREADS = 256
"""The threads of a block among which a reduce is dealt."""

STEP_CLOCKS = 16
"""What an iteration that waits for the one before takes at least, its loads pipelined."""

_FLOPS = {
    "arith.divf": 10,
    "math.sqrt": 10,
    "math.rsqrt": 4,
    "math.exp": 15,
    "math.exp2": 10,
    "math.log": 20,
    "math.tanh": 30,
    "math.erf": 30,
    "math.sin": 40,
    "math.cos": 40,
    "math.powf": 80,
}
"""Operations that cost more than one; other `math` operations cost `_OTHER_MATH`."""

_OTHER_MATH = 20


@dataclass(frozen=True)
class Cost:
    """An estimate; `explain` says what it consists of."""

    flops: float
    memory_bytes: float
    l2_bytes: float
    share: float
    """The share of the chip's SMs that the kernel can use."""
    seconds: float

    @property
    def explain(self) -> str:
        text = (
            f"{self.seconds * 1e6:.1f} us: {self.flops / 1e6:.1f} MFLOP, "
            f"{self.memory_bytes / 1e6:.2f} MB from memory, {self.l2_bytes / 1e6:.2f} MB from L2"
        )
        return text if self.share == 1 else f"{text}, on {self.share:.1%} of the SMs"


def estimate(kernel: KernelOp, target: Target) -> Cost:
    """What one launch of a kernel costs."""
    walk = _Walk(kernel, target)
    walk.visit(kernel.body.block, 1)
    written = sum(_bytes(ref.type, _numel(ref.type)) for ref in kernel.output_refs)
    memory = sum(walk.memory.values()) + written
    l2 = sum(walk.l2.values()) + written
    share = min(1.0, _units(kernel) / target.sms)
    bandwidth = min(target.memory_bandwidth, share * target.sms * target.sm_bandwidth)
    seconds = target.launch_seconds + max(
        walk.flops / (target.flops * share),
        memory / bandwidth,
        l2 / (target.l2_bandwidth * share),
        _steps(kernel.body.block) * STEP_CLOCKS / target.clock,
    )
    return Cost(walk.flops, memory, l2, share, seconds)


def _units(kernel: KernelOp) -> float:
    """Into how many independent pieces of work a kernel can be dealt to SMs: points of its outer
    loops, or pieces of a single reduce or pointwise sweep, which can always be split."""
    units, block = 1, kernel.body.block
    while True:
        reduces = [op for op in block.ops if isinstance(op, ReduceOp)]
        loops = [op for op in block.ops if isinstance(op, ForOp)]
        dependent = len(reduces) + len(loops) > 1 or any(
            isinstance(o, ReduceOp) for r in reduces for o in r.body.walk()
        )
        if dependent:
            return units
        if not loops:
            return float("inf")
        units *= trip_count(loops[0])
        block = loops[0].body.block


def _steps(block: Block) -> int:
    """
    How many iterations follow each other in a thread: outermost loops are dealt over blocks, the
    loops and reduces in them over the threads of a block; where there are loops in those, over
    nothing, since a thread takes the whole row then.
    """
    if len(rows := [op for op in block.ops if isinstance(op, ForOp)]) == 1:
        if isinstance(block.parent_op(), KernelOp):
            return _steps(rows[0].body.block)
    sweeps = [op for op in block.ops if isinstance(op, ForOp | ReduceOp)]
    if any(_serial(op.body.block) for op in sweeps):
        return _serial(block)
    return sum(ceil(trip_count(op) / THREADS) for op in sweeps)


def _serial(block: Block) -> int:
    loops = [op for op in block.ops if isinstance(op, ForOp | ReduceOp)]
    return sum(trip_count(op) * (1 + _serial(op.body.block)) for op in loops)


@dataclass
class _Walk:
    """Counts the operations of a kernel."""

    kernel: KernelOp
    target: Target
    flops: float = 0
    memory: dict[object, float] = field(default_factory=dict)
    l2: dict[object, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.along: Variance = variance(self.kernel)
        reduces = [op for op in self.kernel.walk() if isinstance(op, ReduceOp)]
        self.contractions = {
            c.reduce: c for r in reduces if (c := contraction_of(r, self.along)) is not None
        }
        self.extents: dict[SSAValue, int] = {
            axis: op.extent(axis)
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
            else:
                self._count(op, points)

    def _reduce(self, op: ReduceOp, points: int) -> None:
        inside = points * trip_count(op)
        self.flops += inside * op.monoid.arity
        contraction = self.contractions.get(op)
        if contraction is not None and self._tiled(contraction):
            self._tile(contraction, inside)
        else:
            self.visit(op.body.block, inside)

    def _tiled(self, c: Contraction) -> bool:
        """Can the contraction be computed in tiles: it is alone, all of its axes are outermost,
        and no element of an operand is a reduce."""
        loop = c.reduce.parent_op()
        return (
            len(self.contractions) == 1
            and isinstance(loop, ForOp)
            and loop.parent_op() is self.kernel
            and {*c.batch, *c.rows, *c.columns} <= {*loop.axes}
            and not any(isinstance(o, ReduceOp) for o in c.reduce.body.walk())
        )

    def _tile(self, c: Contraction, points: int) -> None:
        rows = prod(self.extents[a] for a in c.rows)
        columns = prod(self.extents[a] for a in c.columns)
        for op in c.reduce.body.block.ops:
            varies = self.along[op.results[0]] if op.results else frozenset[SSAValue]()
            repeats = points
            if not varies.intersection(c.columns):
                repeats = points / columns * ceil(columns / TILE)
            elif not varies.intersection(c.rows):
                repeats = points / rows * ceil(rows / TILE)
            if isinstance(op, LoadOp):
                self.l2[self._touch(op, points)] = _bytes(op.ref.type, repeats)
            elif repeats == points:
                self._count(op, points)
            else:
                self.flops += INLINED * repeats * flops_of(op)

    def _count(self, op: Operation, points: int) -> None:
        if not isinstance(op, LoadOp):
            self.flops += points * flops_of(op)
            return
        row = self._touch(op, points)
        outer = [a for a in self.along[op.result] if isinstance(a.owner, Block)]
        innermost = _innermost_axis(op)
        warp = 1 if innermost is None or innermost in outer else 32
        self.l2[row] = max(self.l2.get(row, 0), _bytes(op.ref.type, points / warp))

    def _touch(self, op: LoadOp, points: int) -> object:
        """
        Counts what a load brings from memory; returns what is equal for the loads that share it:
        another sweep over the same rows, if an SM can hold a row.
        """
        outermost = _outermost_axes(op)
        varies = self.along[op.result]
        total = _numel(op.ref.type)
        touched = min(points, total, prod(self.extents.get(a, 1) for a in varies))
        rows = prod(self.extents[a] for a in varies if a in outermost)
        held = _bytes(op.ref.type, touched / max(rows, 1)) <= self.target.shared_per_sm
        sweep = (op.ref, None if held else op.parent)
        known = self.memory.get(sweep, 0)
        size = _bytes(op.ref.type, touched)
        names: dict[SSAValue, int] = {a: n for n, a in enumerate(outermost)}
        load = (op.ref, _signature(op, names) if held else op)
        if load not in self.l2:
            self.memory[sweep] = min(_bytes(op.ref.type, total), known + size)
        return load


def _signature(op: LoadOp, names: dict[SSAValue, int]) -> object:
    """The subscripts of a load, its axes other than the outermost not told apart."""
    return (
        op.map,
        op.conditions,
        tuple(names.get(v, -1) for v in op.indices),
    )


def _outermost_axes(op: Operation) -> Sequence[BlockArgument]:
    loops = loops_around(op)
    return loops[0].axes if loops and isinstance(loops[0], ForOp) else ()


def _innermost_axis(op: Operation) -> BlockArgument | None:
    """The last axis of the innermost loop around `op`."""
    loops = loops_around(op)
    return loops[-1].axes[-1] if loops and loops[-1].axes else None


def flops_of(op: Operation) -> float:
    """What arithmetic on floats counts; 0 for any other operation."""
    if isinstance(op, LoadOp | StoreOp) or not op.results:
        return 0
    if not isinstance(op.results[0].type, AnyFloat) or op.name == "arith.constant":
        return 0
    if op.name.startswith("math."):
        return _FLOPS.get(op.name, _OTHER_MATH)
    return _FLOPS.get(op.name, 1)


def _numel(type: object) -> int:
    assert isinstance(type, MemRefType)
    return prod(type.get_shape())


def _bytes(type: object, elements: float) -> float:
    assert isinstance(type, MemRefType)
    return elements * element_bytes(type.element_type)
