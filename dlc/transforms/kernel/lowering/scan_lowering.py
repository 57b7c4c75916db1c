"""How scans become running folds in registers, shuffles in a warp, and shared scratch beyond."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from dlc.analysis.tile.scan_order import scan_order
from dlc.analysis.tile.thread_groups import Lanes, count_of, lanes_of, number_of
from dlc.dialects import kernel, tile
from dlc.dialects.axes import loops_around
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.target import WARP
from dlc.transforms.kernel.lowering.reduce_lowering import (
    ReduceLowering,
    Totals,
    registers_around,
)


def lower_scan(to: ReduceLowering, op: tile.ScanOp) -> None:
    """
    A thread folds its points in order, onto what came before: the points of earlier iterations,
    which it carries, and in this one those of the threads before it, whose totals it is told.
    """
    Scan(to, op).lower()


class Scan:
    """Lowers one scan."""

    def __init__(self, to: ReduceLowering, op: tile.ScanOp) -> None:
        self.to = to
        self.op = op
        self.order = scan_order(op)
        along = to.along(op.results)
        held = self.order.registers
        self.apart = [a for a in registers_around(op) if a in along and a not in held]
        """The register axes at whose points there are scans of their own."""

    def lower(self) -> None:
        to, op = self.to, self.op
        carry = self._carry()
        to.before(op)
        if self.order.threads:
            own = self._folded_by_none("_own")
            prefix = self._run(own)
            before, total = self._exchange(own)
            with to.each(self.apart):
                carried = to.read(carry)
                to.write(before, self._combined(carried, to.read(before)))
                to.write(carry, self._combined(carried, to.read(total)))
            with to.each([*self.apart, *self.order.registers]):
                to.write(prefix, self._combined(to.read(before), to.read(prefix)))
        else:
            prefix = self._run(carry)
        to.replace(op, None, prefix)

    def _combined(self, left: Sequence[SSAValue], right: Sequence[SSAValue]) -> list[SSAValue]:
        return self.op.monoid.combine(self.to.builder, left, right)

    def _identity(self) -> list[SSAValue]:
        types = [r.type for r in self.op.results]
        return [self.to.constant(value) for value in self.op.monoid.identity(types)]

    def _carry(self) -> Totals:
        """What a thread carries through the loops that the scan goes along: at first, no points."""
        to, loops = self.to, [axis.owner.parent_op() for axis in self.order.serial]
        to.before(next((loop for loop in loops_around(self.op) if loop in loops), self.op))
        made = tile.AccumulatorOp(self._identity(), self.apart)
        to.builder.insert(made)
        for ref, result in zip(made.results, self.op.results, strict=True):
            ref.name_hint = f"{result.name_hint or 'scan'}_carry"
        return Totals(tuple(made.results), tuple(self.apart))

    def _folded_by_none(self, end: str) -> Totals:
        """Memory for each scan, in which is the fold of no points."""
        none = self.to.totals(self.op.results, self.apart, "scan", end)
        with self.to.each(self.apart):
            self.to.write(none, self._identity())
        return none

    def _run(self, total: Totals) -> Totals:
        """Folds a thread's points onto a total, in order; returns what it was after each."""
        to, axes = self.to, (*self.apart, *self.order.registers)
        prefix = to.totals(self.op.results, axes, "scan")
        with to.each(axes):
            to.write(total, self._combined(to.read(total), self.op.values))
            to.write(prefix, to.read(total))
        return prefix

    def _exchange(self, own: Totals) -> tuple[Totals, Totals]:
        """The folds of what threads before each have, and of what all have, of their totals."""
        op, across = self.op, self.order.threads
        lanes = lanes_of(list(op.threads), list(across))
        before = self._folded_by_none("_before")
        with self.to.each(self.apart):
            self._over_lanes(before, own, lanes)
        if (parts := count_of(across) // lanes.count) == 1:
            return before, own
        return before, self._over_parts(before, own, parts, lanes)

    def _over_lanes(self, before: Totals, total: Totals, lanes: Lanes) -> None:
        """
        Doubles groups of lanes: a lane in the upper half of a group has all of the lower half
        before it, and all lanes get the total of both.
        """
        to, lane = self.to, number_of(self.order.threads) % lanes.count
        width, threads, half = lanes.count * lanes.apart, to.source.block_size, 1
        while half < lanes.count:
            given = to.read(total)
            shuffles = [kernel.ShuffleOp(v, half * lanes.apart, width, threads) for v in given]
            other = [to.insert(shuffle) for shuffle in shuffles]
            upper = [lane // half % 2 - 1]
            self._add_where(before, other, upper)
            to.write(total, self._combined(given, other))
            half *= 2

    def _add_where(self, before: Totals, values: Sequence[SSAValue], where: list[Expr]) -> None:
        """Folds values onto what is before a thread, if the conditions hold for it."""
        to, old = self.to, self.to.read(before)
        new = zip(self._combined(values, old), old, strict=True)
        to.write(before, [to.insert(kernel.SelectOp(v, where, o)) for v, o in new])

    def _over_parts(self, before: Totals, own: Totals, parts: int, lanes: Lanes) -> Totals:
        """
        Tells the threads the totals of all groups of lanes through shared memory, where what
        neighbouring lanes hold are neighbours; returns the total of all.
        """
        to, op, across = self.to, self.op, self.order.threads
        others = [a for a in op.threads if a not in across]
        part, other = number_of(across), number_of(others)
        shape = [count_of(others), parts]
        kept = [n for n in ([0, 1] if lanes.apart == 1 else [1, 0]) if shape[n] != 1]
        sizes = [*map(extent_of_register, self.apart), *(shape[n] for n in kept)]
        scratch = [
            to.insert(kernel.AllocSharedOp(r.type, sizes), f"{r.name_hint or 'scan'}_parts")
            for r in op.results
        ]

        def place(index: Expr) -> list[Expr]:
            at = [other, index]
            return [*map(Expr.of, self.apart), *(at[n] for n in kept)]

        with to.each(self.apart):
            first = [] if lanes.count == 1 else [Expr() - part % lanes.count]
            for ref, value in zip(scratch, to.read(own), strict=True):
                to.builder.insert(kernel.StoreOp(value, ref, place(part // lanes.count), first))
        total = self._folded_by_none("_all")
        groups = self._folded_by_none("_groups")
        with to.each(self.apart):
            with to.loop(parts, "part", unroll=parts <= WARP) as index:
                loads = [kernel.LoadOp(ref, place(Expr.of(index))) for ref in scratch]
                values = [to.insert(load, "part") for load in loads]
                earlier = [part // lanes.count - 1 - Expr.of(index)]
                self._add_where(groups, values, earlier)
                to.write(total, self._combined(to.read(total), values))
            to.write(before, self._combined(to.read(groups), to.read(before)))
        return total
