"""
How products of matrices that warps fold become `kernel.mma`.

A lane's part of a factor is read by `kernel.ldmatrix` where the factor lies in shared memory in
runs of 8 elements, along K or along the axis that numbers rows or columns, and else element by
element. Both ask the layouts of `dlc.dialects.mma_layouts` where an element belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from dlc.analysis.tile.fragment_rows import At, Side, lane_of, sides
from dlc.analysis.tile.matrix_products import Factor, matrix_product
from dlc.dialects import kernel, tile
from dlc.dialects.kernel_memory import element_bytes, is_shared, memref_of
from dlc.dialects.layouts import UNIT
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.reduce_lowering import (
    ReduceLowering,
    Totals,
    erase_unused,
    registers_around,
)
from dlc.transforms.tf32_parts import taken_apart


@dataclass(frozen=True)
class _Part:
    """What a lane holds of a factor: vectors for each point of register axes."""

    ref: SSAValue
    axes: tuple[BlockArgument, ...]
    width: int
    tiles: int
    """How many points of the last axis follow each other in a vector."""
    shape: tuple[int, ...]

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
        self._to, self._op, self._mma = to, op, op.mma.of_warp
        self._half, self._pair = op.lanes[-2:]
        self._rows, self._columns = sides(op)
        self._lane = Expr()
        self._apart: dict[_Part, list[_Part]] = {}

    def lower(self, totals: Totals) -> None:
        """Adds the products that the body yields to totals, as products of matrices."""
        to, op = self._to, self._op
        to.before(op.yielded)
        self._lane = Expr.of(to.insert(kernel.IndexOp(lane_of(op)), "lane"))
        parts: dict[SSAValue, _Part] = {}
        for value, ref in zip(op.yielded.values, totals.refs, strict=True):
            product = matrix_product(value, self._half, self._pair, to.variance)
            assert product is not None, "register-tile has seen to that"
            sides = ((product.row, self._rows), (product.column, self._columns))
            for factor, side in sides:
                if factor.value not in parts:
                    parts[factor.value] = self._read(factor, side)
            a, b = parts[product.row.value], parts[product.column.value]
            if op.split is None:
                self._multiply(a, b, ref, totals)
                continue
            (a_all, a_big, a_small), (b_all, b_big, b_small) = self._split(a), self._split(b)
            for rows, columns in ((a_small, b_big), (a_big, b_small), (a_all, b_all)):
                self._multiply(rows, columns, ref, totals)
        Rewriter.replace_op(op.yielded, tile.YieldOp(), [])
        erase_unused(op)

    @contextmanager
    def _over(self, axes: Sequence[SSAValue], counts: Sequence[int]) -> Iterator[At]:
        """Inserts into unrolled loops over axes, so many points of each."""
        with ExitStack() as stack:
            loops = (
                stack.enter_context(self._to.loop(count, axis.name_hint, unroll=True))
                for axis, count in zip(axes, counts, strict=True)
            )
            yield dict(zip(axes, map(Expr.of, loops), strict=True))

    def _read(self, factor: Factor, side: Side) -> _Part:
        """Reads a factor: the part of the lane at each point of register axes."""
        to, load = self._to, factor.load
        varies = to.along([factor.value]) - {self._half, self._pair}
        axes = tuple(a for a in registers_around(self._op) if a in varies)
        element, width, name = load.result.type, side.fragment.width, load.result.name_hint
        counts, tiles = [extent_of_register(axis) for axis in axes], 1
        in_rows = self._lies_in_runs(load, side)
        half_full = element_bytes(element) * width == UNIT // 2
        if in_rows and half_full and counts and counts[-1] % 2 == 0:
            counts[-1], tiles = counts[-1] // 2, 2
        shape = [*counts, width * tiles]
        array = to.insert(kernel.AllocLocalOp(element, shape), f"{name or 'factor'}_part")
        with self._over(axes, counts) as at:
            place = [at[axis] for axis in axes]
            if in_rows:
                if tiles == 2:
                    at = {**at, axes[-1]: at[axes[-1]] * 2 + self._lane // 16}
                type = VectorType(element, [width * tiles])
                turned = side.is_transposed(load.subscripts)
                # The axes of a tile may be numbered by lanes, too: they are put in last.
                row = [e.substitute(at.get) for e in side.row(load.subscripts, self._lane)]
                vector = kernel.LdmatrixOp(load.ref, row, type, transposed=turned)
                self._insert_store(to.insert(vector, name), array, [*place, Expr()])
            else:
                for n in range(width):
                    value = self._insert_element(load, side, at, n)
                    self._insert_store(value, array, [*place, Expr((), n)])
        return _Part(array, axes, width, tiles, (*counts, width * tiles))

    def _split(self, part: _Part) -> list[_Part]:
        """
        What tf32 has of each element, the same but 0 for what is infinite, and the rest: all three
        products of an infinite element but the first are then 0, none is 0 times infinity.
        """
        if part not in self._apart:
            to, name = self._to, part.ref.name_hint
            whole = part.ref.type
            assert isinstance(whole, MemRefType)
            arrays = [
                to.insert(kernel.AllocLocalOp(whole.element_type, part.shape), f"{name}_{kind}")
                for kind in ("all", "big", "small")
            ]
            with ExitStack() as stack:
                loops = [stack.enter_context(to.loop(n, "n", unroll=True)) for n in part.shape]
                at = [Expr.of(index) for index in loops]
                value = to.insert(kernel.LoadOp(part.ref, at), name)
                parts = taken_apart(to.insert, to.constant, value)
                for each, array in zip(parts, arrays, strict=True):
                    self._insert_store(each, array, at)
            self._apart[part] = [replace(part, ref=array) for array in arrays]
        return self._apart[part]

    def _insert_store(self, value: SSAValue, array: SSAValue, at: Sequence[Expr]) -> None:
        self._to.builder.insert(kernel.StoreOp(value, array, at))

    def _insert_element(self, load: tile.LoadOp, side: Side, at: At, n: int) -> SSAValue:
        """Reads element n of a lane's part; it is 0 beyond K."""
        where = (*load.where, *self._op.yielded.where)
        exprs = side.element((*load.subscripts, *where), self._lane, n)
        exprs = [e.substitute(at.get) for e in exprs]
        count = len(load.subscripts)
        new = tile.LoadOp(load.ref, exprs[:count], exprs[count:])
        return self._to.insert(new, load.result.name_hint)

    def _lies_in_runs(self, load: tile.LoadOp, side: Side) -> bool:
        """True if a factor is read by rows of shared memory."""
        if load.where or self._op.yielded.where or not is_shared(load.ref):
            return False
        return side.lies_in_runs(load.subscripts, memref_of(load.ref), self._lane)

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
