"""The state of lowering the stages and rings of one kernel to buffers, copies and waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, SSAValue

from dlc.analysis.tile.fragments import UNROLLED_ROUNDS
from dlc.analysis.tile.rings import pending_groups, runs_in
from dlc.dialects import kernel, tile
from dlc.dialects.axes import SERIAL
from dlc.dialects.indexed_op import simplify_where
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.layouts import static_shape
from dlc.ir.expr import Expr
from dlc.target import WARPGROUP, Target
from dlc.transforms.kernel.lowering.kernel_builder import KernelBuilder
from dlc.transforms.kernel.lowering.turns import Turns

COMPUTED_ROUNDS = 16
"""Most rounds of computing dealt to the threads that are written without a loop, as
`UNROLLED_ROUNDS` of copies: addresses are more beside it."""


@dataclass(frozen=True)
class Pipeline:
    """The rings that one loop works through and the tensor memory accelerator fills."""

    loop: tile.ReduceOp
    rings: tuple[tile.RingOp, ...]
    full: SSAValue
    """An mbarrier for each slot; its phase ends when the chunk has arrived in all rings."""
    empty: SSAValue | None
    """
    An mbarrier for each slot; its phase ends when all warps have released the chunk. None where no
    slot is filled a second time.
    """

    @property
    def groups(self) -> list[tuple[int, int]]:
        """
        Of the blocks of a cluster that fill rings together: how many they are, and how far apart.
        """
        return list(dict.fromkeys(r.multicast for r in self.rings if r.multicast != (1, 1)))


class StageLowering(KernelBuilder):
    """Inserts into the kernel itself; see `lower_stages`."""

    def __init__(self, func: kernel.FuncOp, target: Target) -> None:
        program = next(op for op in func.body.block.ops if isinstance(op, tile.ForOp))
        super().__init__(func, program.body.block)
        self.target = target
        self.thread_ids = [op for op in func.body.block.ops if isinstance(op, kernel.ThreadIdOp)]
        self.buffers: dict[tile.RingOp, SSAValue] = {}
        self.slabs: dict[SSAValue, tuple[SSAValue, tuple[Expr, ...]]] = {}
        """Where stages and acquired slots lie: a buffer, and subscripts in front of their own."""
        self.held: dict[SSAValue, SSAValue] = {}
        """The memory of a thread for what it holds."""
        self.runs = runs_in(func)
        self.pending = pending_groups(func, self.runs)
        self.pipelines: dict[tile.RingOp, Pipeline] = {}
        self.tensor_maps: dict[tile.RingOp, SSAValue] = {}
        shared = any(isinstance(op, tile.RingOp) and op.multicast != (1, 1) for op in func.walk())
        self.cluster = func.cluster_size if shared else 1
        """Blocks whose rings are filled together."""
        self.block_ids = [op for op in func.body.block.ops if isinstance(op, kernel.BlockIdOp)]
        self.turns = Turns.of(self)
        """Of blocks that do the work of several."""
        self._slot_numbers: dict[tuple[Block | None, Expr, int], Expr] = {}

    def number(self, ring: tile.RingOp, chunk: Expr) -> Expr:
        """Which of all chunks that a block works through one of a ring is, for who computes."""
        return chunk if self.turns.count == 1 else self.turns.index * ring.chunks + chunk

    @property
    def threads(self) -> int:
        """The number of threads of a block."""
        return self.source.block_size

    @property
    def consumers(self) -> int:
        """Of these those that compute points: without those of a producer."""
        asks = any(ring.has_producer for ring in self.pipelines)
        return self.threads - WARPGROUP if asks else self.threads

    @property
    def thread_id(self) -> Expr:
        """The number of the thread."""
        return Expr.of(self.thread_ids[0].result) if self.thread_ids else Expr()

    @property
    def rank(self) -> Expr:
        """The number of the block in its cluster."""
        return Expr.of(self.block_ids[0].result) % self.cluster if self.cluster > 1 else Expr()

    def allocate(self, result: SSAValue) -> SSAValue:
        """The shared buffer of a stage or ring, with its layout."""
        type = memref_of(result)
        alloc = kernel.AllocSharedOp(type.element_type, static_shape(type), type.layout)
        return self.insert(alloc, result.name_hint)

    def slot(self, chunk: Expr, depth: int) -> Expr:
        """The slot of a chunk in a ring, as a value of its own."""
        number = chunk % depth
        if number.is_constant or number == chunk:
            return number
        key = (self.builder.insertion_point.block, number, depth)
        if key not in self._slot_numbers:
            value = self.insert(kernel.IndexOp(number), "slot")
            self._slot_numbers[key] = Expr.of(value)
        return self._slot_numbers[key]

    def conditions_at(self, loop: tile.ReduceOp, chunk: Expr) -> list[Expr]:
        """
        The conditions under which a loop works through a chunk; where it skips every other, copies
        of those are not requested.
        """
        (axis,) = loop.axes_of(SERIAL)
        return self.exprs(loop.yielded.where, {axis: chunk}) if loop.skips is not None else []

    def deal(
        self,
        sizes: Sequence[int],
        width: int,
        one: Callable[[Sequence[Expr], Sequence[Expr]], None],
        unrolled: int = UNROLLED_ROUNDS,
        together: int = 1,
    ) -> None:
        """
        Deals a slab in runs of `width` elements over the threads, run t, t + threads, … to thread
        t. `one` inserts what is done with a run, given its subscripts and which threads have it; up
        to so many rounds are written without a loop, and of more so many `together` in it.
        """
        runs = prod(sizes) // width
        rounds = -(-runs // self.threads)

        def at(round: Expr) -> None:
            run = round * self.threads + self.thread_id
            one(decode(run * width, sizes), simplify_where([Expr((), runs - 1) - run]))

        if rounds == 1:
            at(Expr())
        elif rounds <= unrolled or together == 1:
            with self.loop(rounds, "round", unroll=rounds <= unrolled) as index:
                at(Expr.of(index))
        else:
            with (
                self.loop(-(-rounds // together), "rounds", unroll=False) as first,
                self.loop(together, "round", unroll=True) as index,
            ):
                at(Expr.of(first) * together + index)


def decode(point: Expr, sizes: Sequence[int]) -> list[Expr]:
    """The subscripts of a running number within a slab; beyond it, the first of them grows."""
    place: list[Expr] = []
    rest = whole = prod(sizes)
    for size in sizes:
        first = rest == whole
        rest //= size
        place.append(point // rest if first else (point // rest) % size)
    return [Expr() if size == 1 else p for p, size in zip(place, sizes, strict=True)]
