"""
How products of matrices that warps fold become `kernel.mma`.

A lane's part of a factor is read by `kernel.ldmatrix` where the factor lies in shared memory in
runs of 8 elements, along K or along the axis that numbers rows or columns, and else element by
element. Both ask the layouts of `dlc.dialects.mma_layouts` where an element belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.kernel.layout import known_divisor
from dlc.analysis.tile.matrix_products import Factor, matrix_product
from dlc.dialects import kernel, tile
from dlc.dialects.axes import FRAGMENT
from dlc.dialects.kernel_memory import element_bytes, is_shared
from dlc.dialects.layouts import UNIT, shape_of, strides_of
from dlc.dialects.mma_layouts import Fragment
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.bounds import within
from dlc.ir.expr import Expr, from_affine
from dlc.transforms.kernel.lowering.reduce_lowering import ReduceLowering, Totals, registers_around

At = dict[SSAValue, Expr]
"""What axes are at an element."""
RUN = 8
"""Elements of a row that a lane points to."""


@dataclass(frozen=True)
class _Side:
    """The rows, or the columns, of a product."""

    fragment: Fragment
    place: Callable[[Expr, Expr], At]
    """The axes at a row (or column) of the fragment and a point of K."""
    run: At
    """How much each axis that numbers rows (or columns) is worth, in runs of 8 of them."""
    rows_first: bool
    """True if the fragment's rows are the product's, and its columns points of K."""

    def at(self, row: Expr, column: Expr) -> At:
        """The axes at a row and a column of the fragment."""
        return self.place(row, column) if self.rows_first else self.place(column, row)


@dataclass(frozen=True)
class _Part:
    """What a lane holds of a factor: vectors for each point of register axes."""

    ref: SSAValue
    axes: tuple[BlockArgument, ...]
    width: int
    tiles: int
    """How many points of the last axis follow each other in a vector."""

    def place(self, at: At) -> list[Expr]:
        """The subscripts of the vector at a point."""
        point = [at[axis] for axis in self.axes]
        if self.tiles == 1:
            return [*point, Expr()]
        return [*point[:-1], point[-1] // self.tiles, point[-1] % self.tiles * self.width]


class MmaLowering:
    """The lowering of one reduce; what it inserts stands in the reduce's body."""

    def __init__(self, to: ReduceLowering, op: tile.ReduceOp) -> None:
        assert op.mma is not None
        self._to, self._op, self._mma = to, op, op.mma
        group, member, half, pair = self._lanes = tuple(op.lanes)
        (k,) = op.axes_of(FRAGMENT)
        self._k: SSAValue = k
        a, b = op.mma.sizes.a, op.mma.sizes.b
        one, two = Expr((), 1), Expr((), 2)

        def row(n: Expr, along_k: Expr) -> At:
            return {half: n // 8, group: n % 8, k: along_k}

        def column(n: Expr, along_k: Expr) -> At:
            return {member: n // 2, pair: n % 2, k: along_k}

        self._rows = _Side(a, row, {group: one}, rows_first=True)
        self._columns = _Side(b, column, {member: two, pair: one}, rows_first=False)
        self._lane = Expr()

    def lower(self, totals: Totals) -> None:
        """Adds the products that the body yields to totals, as products of matrices."""
        to, op = self._to, self._op
        group, member, half, pair = self._lanes
        to.before(op.yielded)
        lane = kernel.IndexOp(Expr.of(group) * 4 + Expr.of(member))
        self._lane = Expr.of(to.insert(lane, "lane"))
        parts: dict[SSAValue, _Part] = {}
        for value, ref in zip(op.yielded.values, totals.refs, strict=True):
            product = matrix_product(value, half, pair, to.variance)
            assert product is not None, "register-tile has seen to that"
            sides = ((product.row, self._rows), (product.column, self._columns))
            for factor, side in sides:
                if factor.value not in parts:
                    parts[factor.value] = self._read(factor, side)
            self._multiply(parts[product.row.value], parts[product.column.value], ref, totals)
        Rewriter.replace_op(op.yielded, tile.YieldOp(), [])
        self._erase_unused()

    @contextmanager
    def _over(self, axes: Sequence[SSAValue], counts: Sequence[int]) -> Iterator[At]:
        """Inserts into unrolled loops over axes, so many points of each."""
        with ExitStack() as stack:
            loops = (
                stack.enter_context(self._to.loop(count, axis.name_hint, unroll=True))
                for axis, count in zip(axes, counts, strict=True)
            )
            yield dict(zip(axes, map(Expr.of, loops), strict=True))

    def _read(self, factor: Factor, side: _Side) -> _Part:
        """Reads a factor: the part of the lane at each point of register axes."""
        to, load = self._to, factor.load
        _, _, half, pair = self._lanes
        varies = to.along([factor.value]) - {half, pair}
        axes = tuple(a for a in registers_around(self._op) if a in varies)
        element, width, name = load.result.type, side.fragment.width, load.result.name_hint
        counts, tiles = [extent_of_register(axis) for axis in axes], 1
        in_rows = self._lies_in_runs(load, side)
        if in_rows and width == 4 and counts and counts[-1] % 2 == 0:
            counts[-1], tiles = counts[-1] // 2, 2
        shape = [*counts, width * tiles]
        array = to.insert(kernel.AllocLocalOp(element, shape), f"{name or 'factor'}_part")
        with self._over(axes, counts) as at:
            place = [at[axis] for axis in axes]
            if in_rows:
                if tiles == 2:
                    at = {**at, axes[-1]: at[axes[-1]] * 2 + self._lane // 16}
                type = VectorType(element, [width * tiles])
                turned = self._is_transposed(load)
                row = self._row_of_lane(load, side, at)
                vector = kernel.LdmatrixOp(load.ref, row, type, transposed=turned)
                self._insert_store(to.insert(vector, name), array, [*place, Expr()])
            else:
                for n in range(width):
                    value = self._insert_element(load, side, at, n)
                    self._insert_store(value, array, [*place, Expr((), n)])
        return _Part(array, axes, width, tiles)

    def _insert_store(self, value: SSAValue, array: SSAValue, at: Sequence[Expr]) -> None:
        self._to.builder.insert(kernel.StoreOp(value, array, at))

    def _insert_element(self, load: tile.LoadOp, side: _Side, at: At, n: int) -> SSAValue:
        """Reads element n of a lane's part; it is 0 beyond K."""
        layout = side.fragment.layout.results
        row, column = (from_affine(e, [self._lane, Expr((), n)]) for e in layout)
        inside = {**at, **side.at(row, column)}
        subscripts = [e.substitute(inside.get) for e in load.subscripts]
        where = [e.substitute(inside.get) for e in (*load.where, *self._op.yielded.where)]
        return self._to.insert(tile.LoadOp(load.ref, subscripts, where), load.result.name_hint)

    def _is_transposed(self, load: tile.LoadOp) -> bool:
        """True unless neighbours along K are neighbours in memory."""
        return not _goes_along(load.subscripts, {self._k: Expr((), 1)})

    def _lies_in_runs(self, load: tile.LoadOp, side: _Side) -> bool:
        """
        True if what is loaded lies in shared memory, in runs of 8 elements that begin at multiples
        of 16 bytes, along K or along the axis that numbers rows or columns.
        """
        type = load.ref.type
        assert isinstance(type, MemRefType)
        shape = shape_of(type)
        if load.where or self._op.yielded.where or not is_shared(load.ref) or not shape:
            return False
        *outer, inner = strides_of(type)
        if inner != 1 or any(n % RUN for n in (*outer, shape[-1])):
            return False
        if element_bytes(type.element_type) * RUN != UNIT:
            return False
        if self._is_transposed(load) and not _goes_along(load.subscripts, side.run):
            return False
        subscripts = self._row_of_lane(load, side, {})
        beyond = [c for s, n in zip(subscripts, shape, strict=True) for c in within(s, n)]
        return not beyond and known_divisor(subscripts[-1]) % RUN == 0

    def _row_of_lane(self, load: tile.LoadOp, side: _Side, at: At) -> list[Expr]:
        """The subscripts of the run to which a lane points."""
        number = self._lane // RUN % (side.fragment.width // 2)
        corner = side.fragment.layout.results
        row, column = (from_affine(e, [Expr(), number * 2]) for e in corner)
        if self._is_transposed(load) == side.rows_first:
            column = column + self._lane % RUN
        else:
            row = row + self._lane % RUN
        inside = {**side.at(row, column)}
        # The axes of a tile may be numbered by lanes, too: they are put in last.
        subscripts = [e.substitute(inside.get) for e in load.subscripts]
        return [e.substitute(at.get) for e in subscripts]

    def _multiply(self, a: _Part, b: _Part, ref: SSAValue, totals: Totals) -> None:
        """Adds the products of all tiles of a warp to a lane's part of the sums."""
        to, (sums, *_) = self._to, self._mma.sums
        axes = totals.axes[:-2]
        with self._over(axes, [extent_of_register(axis) for axis in axes]) as at:
            place = [*(at[axis] for axis in axes), Expr()]
            old = to.insert(kernel.LoadOp(ref, place, result_type=sums), ref.name_hint)
            types = self._mma.types
            rows, columns = (self._vector(p, t, at) for p, t in zip((a, b), types, strict=True))
            new = to.insert(kernel.MmaOp(self._mma, rows, columns, old), ref.name_hint)
            self._insert_store(new, ref, place)

    def _vector(self, part: _Part, type: VectorType, at: At) -> SSAValue:
        read = kernel.LoadOp(part.ref, part.place(at), result_type=type)
        return self._to.insert(read, part.ref.name_hint)

    def _erase_unused(self) -> None:
        """Erases the products that the body yielded, and what is left of their factors."""
        for op in reversed(list(self._op.body.block.ops)):
            pure = isinstance(op, arith.MulfOp | arith.ExtFOp | tile.LoadOp)
            if pure and not any(result.first_use for result in op.results):
                Rewriter.erase_op(op)


def _goes_along(subscripts: Sequence[Expr], run: At) -> bool:
    """True if neighbours along some axes, worth so much each, are neighbours in memory."""
    *outer, last = subscripts
    return all(last.coefficient(axis) == step.constant for axis, step in run.items()) and not any(
        axis in subscript.values() for axis in run for subscript in outer
    )
