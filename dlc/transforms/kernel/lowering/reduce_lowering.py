"""The state of lowering the reduces and combines of one kernel to what they fold into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.axes import REGISTER, AxesOp
from dlc.dialects.factor_types import Product, Widening
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.ir.variance import Variance, variance
from dlc.transforms.kernel.lowering.kernel_builder import KernelBuilder


@dataclass(frozen=True)
class Totals:
    """Memory of a thread for each value that is folded, with an element per point of `axes`."""

    refs: tuple[SSAValue, ...]
    axes: tuple[BlockArgument, ...]
    in_vectors: bool = False
    """True if the points of the last two axes share a dimension: a lane's part of a matrix."""
    numbers: tuple[int, ...] = ()
    """Which results of an operation they are; all if empty."""

    @property
    def point(self) -> list[Expr]:
        """The subscripts of the element at a point of the axes."""
        at = [Expr.of(axis) for axis in self.axes]
        if not self.in_vectors:
            return at
        return [*at[:-2], at[-2] * extent_of_register(self.axes[-1]) + at[-1]]


class ReduceLowering(KernelBuilder):
    """Inserts into the kernel itself; see `lower_reduces`."""

    def __init__(self, func: kernel.FuncOp) -> None:
        super().__init__(func, func.body.block)
        self.variance: Variance = variance(func)

    def constant(self, value: Attribute) -> SSAValue:
        """A constant where it is used: `lower-registers` collects them."""
        return self.constant_here(value)

    def along(self, values: Iterable[SSAValue]) -> frozenset[SSAValue]:
        """The axes along which any of some values varies."""
        return frozenset[SSAValue]().union(*(self.variance[v] for v in values))

    def totals(
        self, values: Sequence[SSAValue], axes: Sequence[BlockArgument], name: str, end: str = ""
    ) -> Totals:
        """
        Allocates memory for values at each point of axes, which is not set. It is called as they
        are, or else `name`.
        """
        shape = [extent_of_register(axis) for axis in axes]
        refs = [
            self.insert(kernel.AllocLocalOp(v.type, shape), f"{v.name_hint or name}{end}")
            for v in values
        ]
        return Totals(tuple(refs), tuple(axes))

    def accumulators(
        self,
        op: tile.ReduceOp,
        lanes: Sequence[SSAValue] = (),
        *,
        together: bool = False,
        in_place: Mapping[int, Sequence[SSAValue]] | None = None,
    ) -> tuple[Totals, ...]:
        """
        Makes accumulators for a reduce, which are its monoid's identity at first: of results that
        vary along the same register axes, or of all `together`. For a reduce by warps, given the
        axes of a fragment, a vector of each lane; and so for results, given theirs, that a reduce
        inside adds to `in_place`.
        """
        around = registers_around(op)
        along = self.along(op.results)
        if lanes:
            return (self._vectors(op, [axis for axis in around if axis in along], lanes),)
        identity = op.monoid.identity([r.type for r in op.results])
        groups: dict[tuple[BlockArgument, ...], list[int]] = {}
        found: list[Totals] = []
        for n, result in enumerate(op.results):
            if in_place and n in in_place:
                axes = [axis for axis in around if axis in self.variance[result]]
                found.append(self._vectors(op, axes, in_place[n], [n]))
                continue
            varies = along if together else self.variance[result]
            groups.setdefault(tuple(axis for axis in around if axis in varies), []).append(n)
        for axes, numbers in groups.items():
            made = tile.AccumulatorOp([self.constant(identity[n]) for n in numbers], axes)
            self.builder.insert(made)
            for ref, n in zip(made.results, numbers, strict=True):
                ref.name_hint = op.results[n].name_hint or "acc"
            found.append(Totals(tuple(made.results), axes, numbers=tuple(numbers)))
        return tuple(found)

    def _vectors(
        self,
        op: tile.ReduceOp,
        axes: Sequence[BlockArgument],
        lanes: Sequence[SSAValue],
        numbers: Sequence[int] = (),
    ) -> Totals:
        inside = [axis for axis in axes if axis in lanes]
        order = (*(axis for axis in axes if axis not in lanes), *inside)
        *shape, rows, columns = map(extent_of_register, order)
        which = numbers or range(len(op.results))
        refs = [
            self.insert(kernel.AllocLocalOp(r.type, [*shape, rows * columns]), r.name_hint or "acc")
            for r in (op.results[n] for n in which)
        ]
        totals = Totals(tuple(refs), order, in_vectors=True, numbers=tuple(numbers))
        identity = op.monoid.identity([r.type for r in op.results])
        with self.each(order):
            self.write(totals, [self.constant(identity[n]) for n in which])
        return totals

    def read(self, totals: Totals) -> list[SSAValue]:
        """Reads the elements at the point of a `tile.each`."""
        loads = [kernel.LoadOp(ref, totals.point) for ref in totals.refs]
        return [self.insert(load, load.ref.name_hint) for load in loads]

    def write(self, totals: Totals, values: Sequence[SSAValue]) -> None:
        """Writes the elements at the point of a `tile.each`."""
        for ref, value in zip(totals.refs, values, strict=True):
            self.builder.insert(kernel.StoreOp(value, ref, totals.point))

    def loaded(self, op: Operation, totals: Sequence[Totals]) -> list[tile.LoadOp]:
        """Loads of what is in memory for each result of an op."""
        loads: dict[int, tile.LoadOp] = {}
        for each in totals:
            for n, ref in zip(each.numbers or range(len(each.refs)), each.refs, strict=True):
                loads[n] = tile.LoadOp(ref, each.point)
                self.variance[loads[n].result] = self.variance[op.results[n]]
        return [loads[n] for n in range(len(op.results))]

    def replace(self, op: Operation, loop: Operation | None, *totals: Totals) -> None:
        """Puts a loop in an op's place, if there is one, and for its results what is in memory."""
        loads = self.loaded(op, totals)
        new = loads if loop is None else [loop, *loads]
        Rewriter.replace_op(op, new, [load.result for load in loads])


def registers_around(op: Operation) -> list[BlockArgument]:
    """The register axes in whose loops an op stands, those of the innermost loop first."""
    axes: list[BlockArgument] = []
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, AxesOp):
            axes += parent.axes_of(REGISTER)
        op = parent
    return axes


def erase_unused(reduce: tile.ReduceOp) -> None:
    """Erases the products that the body of a reduce yielded, and what is left of their factors."""
    for op in reversed(list(reduce.body.block.ops)):
        pure = isinstance(op, Product | Widening | tile.LoadOp)
        if pure and not any(result.first_use for result in op.results):
            Rewriter.erase_op(op)
