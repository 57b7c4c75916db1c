"""Axes become the numbers of block and thread, and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.reads_before_update import reads_before_update
from dlc.analysis.tile.rings import has_producer
from dlc.analysis.tile.skips import can_skip
from dlc.dialects import kernel, loop, tile
from dlc.dialects.axes import BLOCK, REGISTER, SERIAL, THREAD, new_body
from dlc.dialects.indexed_op import IndexedOp
from dlc.dialects.kernel_memory import is_shared
from dlc.dialects.kernel_op import NEW, KernelOpBase, around_kernels, kernels_in, tensor_of
from dlc.dialects.layouts import shape_of
from dlc.dialects.scan_ops import AlongOpBase
from dlc.dialects.size import needing_numbers
from dlc.dialects.size_index import SizeIndexOp, size_expr
from dlc.ir.attributes import index_attr
from dlc.ir.bounds import sure
from dlc.ir.expr import Expr
from dlc.ir.provenance import inherit
from dlc.ir.sizes import Size, several
from dlc.ir.variance import Variance, variance
from dlc.remarks import remark
from dlc.schedule.progress import schedule_as_run
from dlc.target import BLOCK_THREADS, MAX_THREADS, WARPGROUP
from dlc.transforms.axes.loop_to_tile import as_tile
from dlc.transforms.kernel.lowering.block_folds import repeat_after, sizes_first
from dlc.transforms.kernel.lowering.cluster_folds import (
    lower_block_fold,
    lower_thread_fold,
)


@dataclass(frozen=True)
class BindAxesPass(ModulePass):
    """
    Block and thread axes become what the numbers of block and thread say, serial axes loops.

    Every kernel becomes a `kernel.func`, and a `kernel.launch` in its place. Thread axes that a
    combine, scan or stage needs, or that fit in a block beside block axes, stay whole, the last one
    innermost; others are flattened and dealt over blocks of 256. A serial axis becomes a loop
    around all that mentions it. Along axes that an effect does not mention, it is restricted to the
    first point, and so is what it reads, for nothing else, of memory that the kernel updates: the
    other threads would read what is being written. Register axes stay. What blocks hold that a
    combine folds goes to memory that the kernel gets as an output: the last of the blocks goes on
    from there (`kernel.last_block`) and folds it, in the order of the axis. What the blocks of a
    cluster hold goes to their shared memory, where each folds its share of the points; likewise
    what threads hold, where a fold deals points over them.

    *Legal always*: any state of a kernel has a meaning, one still in the loop dialect is one
    thread. The threads of a block run in lockstep until `place-barriers`.
    *Why*: a GPU knows one number of the block and one of the thread; grids in more dimensions end
    at 65,535.

    ```
    tile.launch block(%b in 4) thread(%t in 8) serial(%s in 2) register(%r in 3) {
      %a = tile.load %x[%b, %r]
      tile.store %a, %y[%b, %s, %r]
    }
    ```
    becomes
    ```
    kernel.func @k(…) -> (…) grid 4 block 8 lockstep {
      %b = kernel.block_id
      %t = kernel.thread_id
      tile.for register(%r in 3) {
        %a = tile.load %x[%b, %r]
        tile.for serial(%s in 2) {
          tile.store %a, %y[%b, %s, %r] where (%t < 1)
        }
      }
    }
    ```
    """

    name = "bind-axes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        again: dict[str, list[kernel.LaunchOp]] = {}
        for launch in [o for o in around_kernels(op) if isinstance(o, kernel.LaunchOp)]:
            again.setdefault(launch.kernel_name, []).append(launch)
        for source in kernels_in(op, KernelOpBase):
            assert isinstance(source, loop.KernelOp | tile.KernelOp)
            if isinstance(source, loop.KernelOp):
                source = as_tile(source)
            with needing_numbers(source, f"@{source.name_}"):
                func = _Binding(source).func
            _launch(source, func, op, again.get(source.name_, []))
            remark(self.name, func.name_, f"grid {func.grid_size}, block {func.block_size}")


def _launch(
    source: tile.KernelOp, func: kernel.FuncOp, module: ModuleOp, again: Sequence[kernel.LaunchOp]
) -> None:
    """
    Puts a launch where the kernel was, and the kernel itself into the module; what launches it
    `again` gives what is added to its outputs, too.
    """
    added = [tensor_of(ref.type) for ref in func.output_refs[len(source.outputs) :]]
    new: list[tuple[tile.KernelOp | kernel.LaunchOp, kernel.LaunchOp]] = []
    for op in (source, *(again if added else ())):
        types = [*(r.type for r in op.outputs), *added]
        new.append((op, kernel.LaunchOp(source.name_, op.inputs, types)))
    for old, launch in new:
        launch.location = old.location
        inherit(launch, old)
        results = launch.outputs[: len(old.outputs)]
        for ref, result in zip(
            func.output_refs[len(results) :], launch.outputs[len(results) :], strict=True
        ):
            result.name_hint = ref.name_hint
        Rewriter.replace_op(old, launch, results)
    func.location = source.location
    outermost: Operation = new[0][1]
    while (parent := outermost.parent_op()) is not module and parent is not None:
        outermost = parent
    Rewriter.insert_op(func, InsertPoint.before(outermost))


class _Binding:
    """Moves the body of a tile kernel into a `func`."""

    def __init__(self, source: tile.KernelOp) -> None:
        self._launch = launch = source.launch
        self._along: Variance = variance(launch)
        empty = all(0 in shape_of(ref) for ref in source.output_refs)
        self._folds_threads = lower_thread_fold(source, self._along) or bool(launch.whole_folds)
        if self._folds_threads:
            self._along = variance(launch)
        self._fold = lower_block_fold(source, self._along)
        """Where several blocks meet, or the last of them goes on."""
        self._by_last: frozenset[Operation] = frozenset()
        counters: list[BlockArgument] = []
        if self._fold is not None:
            self._along = variance(launch)
            if self._fold.counter is not None:
                self._by_last = frozenset(self._fold.after())
                counters.append(self._fold.counter)
        self._extents: dict[SSAValue, int] = {a: launch.extent(a) for a in launch.axes}
        kinds = {kind: launch.axes_of(kind) for kind in (BLOCK, THREAD, SERIAL, REGISTER)}
        self._blocks, self._threads = kinds[BLOCK], kinds[THREAD]
        self._reads = dict(reads_before_update(source))
        """What only threads that store it need of memory that changes."""
        zeroed = [source.output_refs.index(ref) for ref in (*source.zeroed_refs, *counters)]
        updates = [] if source.updates is None else [int(n) for n in source.updates.get_values()]
        updates += [NEW] * (len(source.output_refs) - len(updates) if updates else 0)
        alignments = [int(a) for a in source.alignments.get_values()]
        schedule = schedule_as_run(source)
        self.func = kernel.FuncOp(
            source.name_,
            source.detach_region(0),
            alignments,
            1,
            1,
            schedule,
            zeroed,
            updates,
            lockstep=True,
        )
        block = self.func.body.block
        sizes = [op for op in block.ops if isinstance(op, SizeIndexOp)]
        for size in reversed(sizes):  # before what is computed of the number of the block
            size.detach()
            Rewriter.insert_op(size, InsertPoint.at_start(block))
        self._outside = [op for op in block.ops if op is not launch and op not in sizes]
        self._builder = Builder(InsertPoint.before(launch))
        self._zero: SSAValue | None = None
        self._guard: list[Expr] = []
        """Conditions that hold for the threads that have work."""
        self._values: dict[SSAValue, SSAValue] = {}
        """What block and thread axes become."""
        self._number(empty)
        self._rewrite_body()
        self._nest_all(kinds[SERIAL])
        self._replace_launch(kinds[REGISTER])

    def _number(self, empty: bool) -> None:
        """States grid and block, and defines each block and thread axis by their numbers."""
        block_points, thread_points = self._points(self._blocks), self._points(self._threads)
        buffers = tile.CombineOp | tile.StageOp | tile.ComputeOp | tile.ShareOp | tile.RingOp
        together = self._folds_threads or any(
            isinstance(op, buffers) or self._goes_across(op) or _has_table(op)
            for op in self._launch.walk()
        )
        beside = bool(self._blocks) and thread_points <= MAX_THREADS
        whole = together or beside or thread_points <= 1
        threads = max(thread_points, 1) if whole else min(BLOCK_THREADS, thread_points)
        dealt_blocks = 1 if whole else -(-thread_points // threads)
        empty = empty or block_points == 0 or thread_points == 0
        producer = has_producer(self._launch)
        own = threads + WARPGROUP if producer else threads
        cluster = 1 if self._fold is None else self._fold.cluster
        grid = 0 if empty else block_points * dealt_blocks
        self.func.set_launch_shape(grid, own, max(cluster, self._launch.cluster_size))
        resident = self._launch.resident
        if resident is not None and resident.value.data < self.func.grid_size:
            self.func.resident = resident
        self.func.in_turns = self._launch.in_turns
        block_id = thread_id = Expr()
        if several(self.func.grid_size):
            name = self._sole_name(self._blocks) if dealt_blocks == 1 else None
            block_id = self._define(kernel.BlockIdOp(), name or "bid")
        if cluster > 1:
            block_id = self._decode_cluster(block_id, cluster, whole=dealt_blocks == 1)
        if threads > 1:
            name = self._sole_name(self._threads) if whole else None
            thread_id = self._define(kernel.ThreadIdOp(), "tid" if producer else name or "tid")
        if producer:
            thread_id = self._define(kernel.IndexOp(thread_id % threads), "consumer")
        self._decode_blocks(block_id // dealt_blocks)
        self._dealt = block_id % dealt_blocks, dealt_blocks
        if not whole:
            thread_id = (block_id % dealt_blocks) * threads + thread_id
            if len(self._threads) > 1:
                thread_id = self._define(kernel.IndexOp(thread_id), "point")
            last = Expr((), thread_points - 1)
            if not sure(last - thread_id):
                self._guard.append(last - thread_id)
        self._decode(self._threads, thread_id)

    def _points(self, axes: list[BlockArgument]) -> int:
        return prod(self._extents[a] for a in axes)

    def _sole_name(self, axes: list[BlockArgument]) -> str | None:
        return axes[0].name_hint if len(axes) == 1 else None

    def _define(self, op: Operation, name: str | None) -> Expr:
        """Inserts the definition of an index value."""
        op.location = self._launch.location
        self._builder.insert(op)
        op.results[0].name_hint = name
        return Expr.of(op.results[0])

    def _decode_cluster(self, number: Expr, blocks: int, *, whole: bool) -> Expr:
        """
        Gives the axes along which the blocks of a cluster differ theirs of the number of a block;
        what is left of it is the number of the cluster.
        """
        assert self._fold is not None
        self._decode([a for a in self._blocks if a in self._fold.axes], number % blocks)
        self._blocks = [a for a in self._blocks if a not in self._fold.axes]
        name = self._sole_name(self._blocks) if whole else None
        cluster = number // blocks
        return self._define(kernel.IndexOp(cluster), name or "cluster") if self._blocks else cluster

    def _decode_blocks(self, number: Expr) -> None:
        """
        Gives each block axis its part of the number of the block, as the launch orders them; one
        whose number of points is a size runs slowest, so that no number is divided by a sole one.
        """
        if (order := self._launch.order) is None:
            self._decode(sizes_first(self._launch, self._blocks), number)
            return
        slowest, waves = order
        others = [axis for axis in self._blocks if axis is not slowest]
        extent = self._extents[slowest]
        rank = self._decode(others, number, extent)
        if waves > 1 and rank.terms:
            rank = self._define(kernel.IndexOp(rank), "rank")
        place = size_expr(extent, self._launch) - 1 - _in_waves(rank, extent // waves, waves)
        self._values[slowest] = self._part(place, slowest)

    def _decode(self, axes: list[BlockArgument], number: Expr, beyond: int = 1) -> Expr:
        """
        Gives each axis its part of a running number, the last axis running fastest; the number of
        what runs slower than all of them, of which there are `beyond`.
        """
        extents = [self._extents[a] or 1 for a in axes]  # an empty axis decodes no points
        parts: list[Expr] = []
        for place in reversed(range(len(axes))):
            others = beyond * prod(extents[:place])
            name = axes[place].name_hint
            part, number = self._divided(number, extents[place], others, name)
            parts.insert(0, part)
        for axis, part in zip(axes, parts, strict=True):
            self._values[axis] = self._part(part, axis)
        return number

    def _divided(self, number: Expr, by: int, others: int, name: str | None) -> tuple[Expr, Expr]:
        """Remainder and quotient of a number below `by * others`, both of which may be sizes."""
        if others == 1:
            return number, Expr()
        if not isinstance(by, Size):
            return number % by, number // by
        if number != Expr.of(number.values()[0]):
            number = self._define(kernel.IndexOp(number), "block")
        (value,) = number.values()
        remainder = self._define(kernel.RemainderOp(value, by), name)
        return remainder, self._define(kernel.QuotientOp(value, by, Size.of(others)), "rest")

    def _part(self, part: Expr, axis: BlockArgument) -> SSAValue:
        """A value for the part of a running number that an axis is."""
        if part.is_constant:
            return self._zero_at_top()
        if part != Expr.of(part.values()[0]):
            part = self._define(kernel.IndexOp(part), axis.name_hint)
        return part.values()[0]

    def _zero_at_top(self) -> SSAValue:
        """The number of the only point of an axis."""
        if self._zero is None:
            top = Builder(InsertPoint.at_start(self.func.body.block))
            self._zero = top.insert(arith.ConstantOp(index_attr(0))).result
        return self._zero

    def _rewrite_body(self) -> None:
        """Makes axes values, and restricts effects along axes that they do not mention."""
        idle = {
            read: frozenset[SSAValue].intersection(*map(self._idle_along, effects))
            for read, effects in self._reads.items()
        }
        for op in list(self._launch.body.block.walk()):
            if isinstance(op, tile.StoreOp | tile.AtomicAddOp):
                self._restrict(op)
            elif isinstance(op, tile.LoadOp) and op in idle:
                op.substitute(self._values.get, self._first_along(idle[op]))
            elif isinstance(op, kernel.LastBlockOp):
                self._group(op)
            elif isinstance(op, tile.ReduceOp):
                op.operands = [self._values.get(lane, lane) for lane in op.lanes]
                if op.about is None and can_skip(op, self._along):
                    op.skips = UnitAttr()
            elif isinstance(op, tile.HoldOp):
                op.operands = [self._values.get(axis, axis) for axis in op.across]
            elif isinstance(op, tile.CombineOp):
                op.bind(self._several(op.axes), self._several(self._threads))
            elif isinstance(op, IndexedOp):
                if isinstance(op, AlongOpBase) and self._goes_across(op):
                    op.bind(self._several(self._threads))
                op.substitute(self._values.get)

    def _goes_across(self, op: Operation) -> bool:
        """True for a scan or a sort along thread axes."""
        return isinstance(op, AlongOpBase) and not set(self._threads).isdisjoint(op.indices)

    def _several(self, axes: Sequence[SSAValue]) -> list[SSAValue]:
        """The index values that axes of several points became."""
        return [self._values[a] for a in axes if self._extents[a] != 1]

    def _idle_along(self, op: tile.StoreOp | tile.AtomicAddOp) -> frozenset[SSAValue]:
        """The axes along which only the first point has an effect."""
        along = frozenset[SSAValue]().union(*(self._along[i] for i in op.indices))
        if op in self._by_last:
            assert self._fold is not None
            along |= self._fold.axes
        return frozenset(axis for axis in self._values if axis not in along)

    def _first_along(self, axes: frozenset[SSAValue]) -> list[Expr]:
        """The conditions that hold at the first point of axes."""
        return [Expr() - Expr.of(v) for axis, v in self._values.items() if axis in axes]

    def _restrict(self, op: tile.StoreOp | tile.AtomicAddOp) -> None:
        if is_shared(op.ref):  # what each thread holds
            op.substitute(self._values.get)
            return
        once = self._first_along(self._idle_along(op))
        op.substitute(self._values.get, [*self._guard, *once])

    def _group(self, op: kernel.LastBlockOp) -> None:
        """Gives the blocks that share a fold an element to count in, apart from all others."""
        assert self._fold is not None
        number, count = self._dealt
        self._fold.set_groups(self._launch, count)
        op.substitute(self._values.get)
        *others, group = op.subscripts
        op.set_index([*others, group * count + number], [])

    def _nest_all(self, serial: list[BlockArgument]) -> None:
        """Moves what mentions serial axes into loops, of what all blocks do and the last one."""
        block, fold = self._launch.body.block, self._fold
        end = block.last_op
        assert end is not None
        if fold is not None and serial:
            before = [op for op in block.ops if op.is_before_in_block(fold.place)]
            repeat_after(fold.place, self._needing(before, serial))
            self._along = variance(self._launch)
            self._nest(before, fold.place, serial)
        ops = [op for op in block.ops if fold is None or fold.place.is_before_in_block(op)]
        self._nest(ops[:-1], end, serial)
        if fold is not None and fold.cluster > 1:  # others may still read what a block holds
            last = kernel.ClusterBarrierOp(relaxed=True)
            last.location = fold.place.location
            Rewriter.insert_op(last, InsertPoint.before(end))

    def _needing(self, ops: Sequence[Operation], serial: Sequence[SSAValue]) -> list[Operation]:
        """The operations, of some in order, that need a loop over a serial axis."""
        needs: dict[Operation | Block, set[SSAValue]] = {}
        for op in ops:
            needs[op] = self._mentioned(op) & set(serial)
            for value in (v for inner in op.walk() for v in inner.operands):
                needs[op] |= needs.get(value.owner, set())  # for all that its owner gives
        return [op for op in ops if needs[op]]

    def _nest(
        self, ops: Sequence[Operation], end: Operation, serial: Sequence[BlockArgument]
    ) -> None:
        """Moves operations in front of `end` into loops over serial axes, the first outermost."""
        rest = self._needing(ops, serial)
        if not rest:
            return
        axis, *inner = serial
        if not self._needing(rest, [axis]):  # what blocks share is dealt over them
            self._nest(rest, end, inner)
            return
        body = new_body(1, [axis.name_hint])
        for op in rest:
            op.detach()
            body.block.add_op(op)
        nest = tile.ForOp([self._extents[axis]], body, [SERIAL])
        nest.location = self._launch.location
        Rewriter.insert_op(nest, InsertPoint.before(end))
        last = body.block.last_op
        assert last is not None
        self._nest(rest, last, inner)
        axis.replace_uses_with_if(body.block.args[0], lambda use: nest.is_ancestor(use.operation))

    def _mentioned(self, op: Operation) -> set[SSAValue]:
        """Along what anything in an op varied."""
        operands = (v for inner in op.walk() for v in inner.operands)
        return {axis for v in operands for axis in self._along.get(v, ())}

    def _replace_launch(self, registers: list[BlockArgument]) -> None:
        """Leaves a loop over the register axes, which defines the kernel's constants, too."""
        launch = self._launch
        extents = [self._extents[a] for a in registers]
        body = launch.detach_region(0)
        for axis in [a for a in body.block.args if a not in registers]:
            body.block.erase_arg(axis)
        inside = Builder(InsertPoint.at_start(body.block))
        for op in self._outside:
            op.detach()
            inside.insert(op)
        program = tile.ForOp(extents, body, [REGISTER] * len(extents))
        program.location = launch.location
        Rewriter.replace_op(launch, program, [])


def _has_table(op: Operation) -> bool:
    """True for an addition that a block makes in a table of its own."""
    return isinstance(op, tile.AtomicAddOp) and op.in_block is not None


def _in_waves(rank: Expr, points: int, waves: int) -> Expr:
    """
    Where the point of a rank stands: in waves of so many points, a power of 2, of which every
    second one runs back. As p and p's bits turned over are points from both ends of a wave, each
    bit is turned over by adding 1 where the wave's number is odd.
    """
    if waves == 1:
        return rank
    wave, point = rank // points, rank % points
    odd, place, bit = wave % 2, wave * points, 1
    while bit < points:
        place = place + ((point // bit + odd) % 2) * bit
        bit *= 2
    return place
