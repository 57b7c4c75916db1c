"""
Which elements a lane's part of a factor has, and the row to which a lane points where a warp reads
a factor by rows of 16 bytes (`kernel.ldmatrix`): by the layouts of `dlc.dialects.mma_layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from dlc.analysis.kernel.layout import known_divisor
from dlc.dialects import tile
from dlc.dialects.axes import FRAGMENT
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import UNIT, Groups, shape_of, strides_of
from dlc.dialects.mma_layouts import Fragment
from dlc.ir.affine_forms import from_affine
from dlc.ir.bounds import within
from dlc.ir.expr import Expr

At = dict[SSAValue, Expr]
"""What axes are at an element."""
ROWS = 8
"""Rows of 16 bytes that are a matrix; where it is transposed, the elements of a row, too."""


@dataclass(frozen=True)
class Side:
    """The rows, or the columns, of the products that a reduce sums."""

    fragment: Fragment
    k: SSAValue
    """The fragment axis."""
    place: Callable[[Expr, Expr], At]
    """The axes at a row (or column) of the fragment and a point of K."""
    run: At
    """How much each axis that numbers rows (or columns) is worth, in runs of 8 of them."""
    element_type: Attribute
    rows_first: bool
    """True if the fragment's rows are the product's, and its columns points of K."""

    def element(self, subscripts: Sequence[Expr], lane: Expr, n: int) -> list[Expr]:
        """Expressions of the axes at place n of a lane's part."""
        row, column = (from_affine(e, [lane, Expr((), n)]) for e in self.fragment.layout.results)
        return self._at(subscripts, row, column)

    def row(self, subscripts: Sequence[Expr], lane: Expr) -> list[Expr]:
        """The subscripts of the run to which a lane points."""
        places = run_of(self.element_type) // 4
        number = lane // ROWS % (self.fragment.width // places)
        corner = self.fragment.layout.results
        row, column = (from_affine(e, [Expr(), number * places]) for e in corner)
        if self.is_transposed(subscripts) == self.rows_first:
            return self._at(subscripts, row, column + lane % ROWS)
        return self._at(subscripts, row + lane % ROWS, column)

    def is_transposed(self, subscripts: Sequence[Expr]) -> bool:
        """True unless neighbours along K are neighbours in memory."""
        return not _goes_along(subscripts, {self.k: Expr((), 1)})

    def lies_in_runs(
        self, subscripts: Sequence[Expr], type: MemRefType[Attribute], lane: Expr
    ) -> bool:
        """
        True if what is loaded lies in a buffer in runs of 16 bytes that begin at multiples of 16
        bytes, along K or, of 8 elements, along the axis that numbers rows or columns.
        """
        shape, strides = shape_of(type), strides_of(type)
        run = run_of(self.element_type)
        if not shape or type.element_type != self.element_type:
            return False
        *outer, inner = strides
        groups = Groups.of(type)
        outer += [] if groups is None else [groups.stride]
        if inner != 1 or any(n % run for n in (*outer, shape[-1])):
            return False
        if self.is_transposed(subscripts) and not (
            run == ROWS and _goes_along(subscripts, self.run)
        ):
            return False
        row = self.row(subscripts, lane)
        beyond = [c for s, n in zip(row, shape, strict=True) for c in within(s, n)]
        return not beyond and known_divisor(row[-1]) % run == 0

    def _at(self, exprs: Sequence[Expr], row: Expr, column: Expr) -> list[Expr]:
        at = self.place(row, column) if self.rows_first else self.place(column, row)
        return [e.substitute(at.get) for e in exprs]


def run_of(element: Attribute) -> int:
    """The elements of a row of 16 bytes."""
    return UNIT // element_bytes(element)


def _goes_along(subscripts: Sequence[Expr], run: At) -> bool:
    """True if neighbours along some axes, worth so much each, are neighbours in memory."""
    *outer, last = subscripts
    return all(last.coefficient(axis) == step.constant for axis, step in run.items()) and not any(
        axis in subscript.values() for axis in run for subscript in outer
    )


def sides(reduce: tile.ReduceOp) -> tuple[Side, Side]:
    """The rows and the columns of a reduce with a fragment axis."""
    assert reduce.mma is not None
    group, member, half, pair = reduce.lanes[-4:]
    (k,) = reduce.axes_of(FRAGMENT)
    sizes, (of_rows, of_columns) = reduce.mma.sizes, reduce.mma.elements

    def row(n: Expr, along_k: Expr) -> At:
        return {half: n // 8, group: n % 8, k: along_k}

    def column(n: Expr, along_k: Expr) -> At:
        return {member: n // 2, pair: n % 2, k: along_k}

    return (
        Side(sizes.a, k, row, {group: Expr((), 1)}, of_rows, rows_first=True),
        Side(
            sizes.b,
            k,
            column,
            {member: Expr((), 2), pair: Expr((), 1)},
            of_columns,
            rows_first=False,
        ),
    )


def lane_of(reduce: tile.ReduceOp) -> Expr:
    """The number of a lane."""
    group, member, *_ = reduce.lanes[-4:]
    return Expr.of(group) * 4 + Expr.of(member)


@dataclass(frozen=True)
class LaneRead:
    """How a lane reads its part of a factor at a point of the axes of registers."""

    subscripts: tuple[Expr, ...]
    """Of what it reads first, in a buffer."""
    elements: int
    """What it reads, or points to, at once."""
    times: int

    @property
    def by_rows(self) -> bool:
        """True if it points to a row of 16 bytes."""
        return self.elements > 1


def read_of_lane(
    load: tile.LoadOp, subscripts: Sequence[Expr], type: MemRefType[Attribute]
) -> LaneRead | None:
    """
    How lanes read a factor of products of matrices in a buffer of a type: by rows of 16 bytes, to
    which they point, or element by element; None for any other load.
    """
    reduce = load.parent_op()
    if not isinstance(reduce, tile.ReduceOp) or reduce.mma is None:
        return None
    if load.where or reduce.yielded.where:
        return None
    half, pair = reduce.lanes[-2:]
    mentioned = {value for e in subscripts for value in e.values()} & {half, pair}
    if len(mentioned) != 1:
        return None
    side = sides(reduce)[0 if half in mentioned else 1]
    lane = lane_of(reduce)
    if side.lies_in_runs(subscripts, type, lane):
        return LaneRead(tuple(side.row(subscripts, lane)), run_of(type.element_type), 1)
    if reduce.mma.is_of_warpgroup:
        return None
    return LaneRead(tuple(side.element(subscripts, lane, 0)), 1, side.fragment.width)
