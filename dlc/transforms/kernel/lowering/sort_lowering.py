"""How sorts become comparisons in registers, and exchanges of what threads hold between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, i32
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.tile.scan_order import ScanOrder, scan_order
from dlc.analysis.tile.thread_groups import count_of, number_of
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.ir.sorting_network import Window, steps, windows
from dlc.schedule.sorted_rows import padded_row
from dlc.target import BANK_BYTES, BANKS
from dlc.transforms.kernel.lowering.reduce_lowering import ReduceLowering, registers_around

Values = Sequence[SSAValue]


def lower_sort(to: ReduceLowering, op: tile.SortOp) -> None:
    """
    Threads that share a row compare what they hold in registers as far as they can, and exchange it
    in shared memory as often as it takes; a thread alone goes through a serial axis in memory of
    its own. OpError where neither is so.
    """
    order = scan_order(op)
    if order.serial and (order.threads or order.registers or len(order.serial) > 1):
        fail(
            op,
            f"expected a sort along threads and register axes or one serial axis, found {op.place}",
            "run cooperative-reduce with as many threads times vector as the row has points",
        )
    along = to.along(op.results)
    apart = [a for a in registers_around(op) if a in along and a not in order.registers]
    if order.serial:
        _sort_alone(to, op, apart)
        return
    if apart:
        fail(op, "expected a sort of one row for each thread, found several at register axes")
    _Sort(to, op, order).lower()


class _Sort:
    """Lowers a sort of what threads hold in registers."""

    def __init__(self, to: ReduceLowering, op: tile.SortOp, order: ScanOrder) -> None:
        self.to = to
        self.op = op
        self.order = order

    def lower(self) -> None:
        to, op, axes = self.to, self.op, self.order.registers
        to.before(op)
        held = to.totals(op.results, axes, "sort")
        with to.each(axes):
            to.write(held, op.values)
        extents = [range(extent_of_register(axis)) for axis in axes]
        places = [[*map(Expr.of, at)] for at in product(*extents)]
        values = [_loaded(to, held.refs, at) for at in places]
        threads = count_of(self.order.threads)
        if len(values) == 1 < threads:
            fail(op, "expected a sort of two values of each thread, or more, found one")
        width = (len(values) - 1).bit_length()
        bits = width + (threads - 1).bit_length()
        kept = None if op.first is None else op.first.bit_length() - 1
        first, *others = windows(bits, width, bitonic=op.bitonic is not None, first=kept)
        _compare_all(to, values, first)
        if kept is not None and threads > 1:
            values = self._first(values, first, others)
        elif kept is not None:
            values = [values[n % (1 << kept)] for n in range(len(values))]
        elif others:
            values = self._exchanged(values, first, others)
        for at, several in zip(places, values, strict=True):
            _store(to, several, held.refs, at)
        to.replace(op, None, held)

    def _exchanged(
        self, values: list[Values], held: Window, others: Sequence[Window]
    ) -> list[Values]:
        """What threads hold after all windows: they keep it in shared memory between two."""
        to, memory = self.to, self._memory(len(values))
        for window in others:
            memory.write(to, held, values)
            held = window
            values = memory.read(to, held)
            _compare_all(to, values, held)
        return values

    def _first(self, values: list[Values], held: Window, others: Sequence[Window]) -> list[Values]:
        """
        The same where only the first values are asked for: threads that hold none of what is left
        do nothing but to read these at last.
        """
        to, memory, count = self.to, self._memory(len(values)), len(values)
        memory.write(to, held, values)
        for window in others:
            idle = window.threads < (count_of(self.order.threads) - 1).bit_length()
            busy = [Expr.of((1 << window.threads) - 1) - memory.thread] if idle else []
            with to.only_if(busy):
                values = memory.read(to, window)
                _compare_all(to, values, window)
                memory.write(to, window, values)
        assert self.op.first is not None
        places = [(memory.thread * count + n) % self.op.first for n in range(count)]
        return [memory.load(to, place) for place in places]

    def _memory(self, held: int) -> _Memory:
        """Shared memory for what threads hold, so many values each, of all rows of a block."""
        to, across = self.to, self.order.threads
        beside = [thread for thread in self.op.threads if thread not in across]
        points, rows = held * count_of(across), count_of(beside)
        refs = [_padded(to, v, rows, points) for v in self.op.results]
        return _Memory(refs, number_of(across), number_of(beside))


@dataclass(frozen=True)
class _Memory:
    """Shared memory of rows, whose values threads exchange."""

    refs: Values
    thread: Expr
    """The number of a thread among those of its row."""
    row: Expr

    def write(self, to: ReduceLowering, window: Window, values: Sequence[Values]) -> None:
        """Writes what a thread keeps."""
        for number, several in enumerate(values[: 1 << window.kept]):
            place = window.place(self.thread, number)
            for value, ref in zip(several, self.refs, strict=True):
                to.builder.insert(kernel.StoreOp(value, ref, self._at(ref, place)))

    def read(self, to: ReduceLowering, window: Window) -> list[Values]:
        """What a thread holds in a window."""
        numbers = range(1 << window.held)
        return [self.load(to, window.place(self.thread, number)) for number in numbers]

    def load(self, to: ReduceLowering, place: Expr) -> Values:
        loads = [(ref, kernel.LoadOp(ref, self._at(ref, place))) for ref in self.refs]
        return [to.insert(load, ref.name_hint) for ref, load in loads]

    def _at(self, ref: SSAValue, place: Expr) -> list[Expr]:
        run = _run(ref)
        padded = len(shape_of(ref)) == 3
        return [self.row, place // run, place % run] if padded else [self.row, place]


def _loaded(to: ReduceLowering, refs: Values, at: Sequence[Expr]) -> Values:
    return [to.insert(kernel.LoadOp(ref, at), ref.name_hint) for ref in refs]


def _store(to: ReduceLowering, values: Values, refs: Values, at: Sequence[Expr]) -> None:
    for value, ref in zip(values, refs, strict=True):
        to.builder.insert(kernel.StoreOp(value, ref, at))


def _run(ref: SSAValue) -> int:
    """The elements that lie in all banks once, after which one is left free."""
    assert isinstance(ref.type, MemRefType)
    return BANKS * BANK_BYTES // element_bytes(ref.type.element_type)


def _padded(to: ReduceLowering, value: SSAValue, rows: int, points: int) -> SSAValue:
    shape = [rows, *padded_row(points, element_bytes(value.type))]
    return to.insert(kernel.AllocSharedOp(value.type, shape), f"{value.name_hint or 'sort'}_row")


def _compare_all(to: ReduceLowering, values: list[Values], window: Window) -> None:
    """Puts what a thread holds in order, pair by pair."""
    for lower, upper in window.pairs:
        values[lower], values[upper] = _in_order(to, values[lower], values[upper])


def _in_order(to: ReduceLowering, lower: Values, upper: Values) -> tuple[Values, Values]:
    """The lesser one of two, and the other one."""
    if [v.type for v in lower] == [i32]:
        least, most = arith.MinSIOp(lower[0], upper[0]), arith.MaxSIOp(lower[0], upper[0])
        return [to.insert(least, lower[0].name_hint)], [to.insert(most, upper[0].name_hint)]
    swapped = _is_less(to, upper, lower)
    pairs = [*zip(lower, upper, strict=True)]
    least = [to.insert(arith.SelectOp(swapped, b, a), a.name_hint) for a, b in pairs]
    most = [to.insert(arith.SelectOp(swapped, a, b), b.name_hint) for a, b in pairs]
    return least, most


def _is_less(to: ReduceLowering, left: Values, right: Values) -> SSAValue:
    """True if values come before others: by the first, by the second where that is equal."""
    (a, *others), (b, *rest) = left, right
    less = to.insert(arith.CmpiOp(a, b, "slt"), "less")
    if not others:
        return less
    equal = to.insert(arith.CmpiOp(a, b, "eq"), "equal")
    behind = to.insert(arith.AndIOp(equal, _is_less(to, others, rest)), "less")
    return to.insert(arith.OrIOp(less, behind), "less")


def _sort_alone(to: ReduceLowering, op: tile.SortOp, apart: Sequence[BlockArgument]) -> None:
    """
    A thread computes all values before the loop in which they are sorted, and sorts them in memory
    of its own: at the points of some register axes a row each.
    """
    loop = op.parent_op()
    assert isinstance(loop, tile.ForOp)
    to.before(loop)
    points = loop.extent(loop.axes[0])
    shape, row = [*map(extent_of_register, apart), points], [*map(Expr.of, apart)]
    refs = [
        to.insert(kernel.AllocLocalOp(v.type, shape), f"{v.name_hint or 'sort'}_row")
        for v in op.results
    ]
    to.builder.insert(_up_to(loop, op, refs, row))
    for step in steps((points - 1).bit_length(), bitonic=op.bitonic is not None):
        with to.loop(points // 2, "pair", unroll=False) as pair, to.each(apart):
            at = [[*row, place] for place in step.places(Expr.of(pair))]
            found = _in_order(to, *(_loaded(to, refs, place) for place in at))
            for values, place in zip(found, at, strict=True):
                _store(to, values, refs, place)
    place = op.place if op.first is None else op.place % op.first
    loads = [tile.LoadOp(ref, [*row, place]) for ref in refs]
    for load, result in zip(loads, op.results, strict=True):
        to.variance[load.result] = to.variance[result]
    Rewriter.replace_op(op, loads, [load.result for load in loads])


def _up_to(loop: tile.ForOp, op: tile.SortOp, refs: Values, row: Sequence[Expr]) -> tile.ForOp:
    """A copy of a loop that does no more than to store what a sort in it is to sort."""
    copy = loop.clone()
    block = copy.body.block
    sort = list(block.ops)[list(loop.body.block.ops).index(op)]
    assert isinstance(sort, tile.SortOp)
    while (last := block.last_op) is not sort:
        assert last is not None
        Rewriter.erase_op(last)
    for effect in [o for o in block.ops if isinstance(o, tile.StoreOp)]:
        Rewriter.erase_op(effect)
    stores = [
        tile.StoreOp(v, r, [*row, sort.place]) for v, r in zip(sort.values, refs, strict=True)
    ]
    block.insert_ops_before(stores, sort)
    Rewriter.erase_op(sort)
    block.add_op(tile.YieldOp())
    return copy
