"""How products of matrices that warpgroups fold become `kernel.wgmma` and `kernel.wgmma_held`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.tile.fragment_rows import lane_of, sides
from dlc.analysis.tile.matrices import Held, Matrix, matrices_of
from dlc.analysis.tile.matrix_products import matrix_product
from dlc.dialects import kernel, tile
from dlc.dialects.axes import SERIAL
from dlc.dialects.kernel_wgmma import ROW_GROUP
from dlc.dialects.mma_layouts import MmaAttr
from dlc.dialects.point_ops import extent_of_register
from dlc.ir.expr import Expr
from dlc.transforms.kernel.lowering.products_ahead import AHEAD
from dlc.transforms.kernel.lowering.reduce_lowering import (
    ReduceLowering,
    Totals,
    erase_unused,
    registers_around,
)


@dataclass(frozen=True)
class Factor:
    """What each lane holds of a factor: 8 elements at each point of axes."""

    ref: SSAValue
    axes: tuple[BlockArgument, ...]


@dataclass(frozen=True)
class Products:
    """What a reduce sums, as products of matrices that lie as descriptors say."""

    op: tile.ReduceOp
    shape: MmaAttr
    matrices: list[tuple[Matrix | Factor, Matrix]]
    """For each value that is yielded."""
    totals: Totals
    columns: BlockArgument | None
    """The axis of the sums that counts eight columns."""

    @staticmethod
    def of(to: ReduceLowering, op: tile.ReduceOp, totals: Totals) -> Products | str:
        """The reason why there are none otherwise."""
        assert op.mma is not None
        *axes, half, pair = totals.axes
        tiles = op.mma.sizes.n // ROW_GROUP
        columns = axes[-1] if tiles > 1 and axes else None
        if (tiles > 1) != (columns is not None) or not axes:
            return "a warpgroup has fewer columns"
        if columns is not None and extent_of_register(columns) % tiles:
            return "a warpgroup has no multiple of so many columns"
        found: list[tuple[Matrix | Held, Matrix]] = []
        for value in op.yielded.values:
            product = matrix_product(value, half, pair, to.variance)
            assert product is not None, "register-tile has seen to that"
            matrices = matrices_of(op, product, columns)
            if isinstance(matrices, str):
                return matrices
            found.append(matrices)
        factors: list[tuple[Matrix | Factor, Matrix]] = [
            (_factor(to, op, a) if isinstance(a, Held) else a, b) for a, b in found
        ]
        return Products(op, op.mma, factors, totals, columns)

    @property
    def _registers(self) -> list[SSAValue]:
        """The sums, and the factors that lanes hold."""
        return [*self.totals.refs, *(a.ref for a, _ in self.matrices if isinstance(a, Factor))]

    def fence(self) -> Operation:
        """What stands before the loop around the products."""
        return kernel.WgmmaFenceOp(self._registers)

    def finish(self, loop: Operation, around: int) -> None:
        """
        Puts waits behind the loop around the products, and behind the last of so many loops around
        that if products may be in flight until then. What may be, and is computed with, is marked.
        """
        pending = self.op.left_pending if around else 0
        wait = kernel.WgmmaWaitOp(pending, self._registers)
        if self.op.left_pending and not around:
            wait.attributes[AHEAD] = UnitAttr()
        Rewriter.insert_op([kernel.WgmmaCommitOp(), wait], InsertPoint.after(loop))
        if not pending:
            return
        for _ in range(around):
            outer = loop.parent_op()
            assert outer is not None
            loop = outer
        Rewriter.insert_op(kernel.WgmmaWaitOp(0, self._registers), InsertPoint.after(loop))

    def lower(self, to: ReduceLowering) -> None:
        """Requests, in place of what the body yields, the products of all tiles of a warpgroup."""
        last = self.op.yielded
        to.before(last)
        for (a, b), ref in zip(self.matrices, self.totals.refs, strict=True):
            with self._over_tiles(to) as at:
                place = [at.get(axis, Expr()) for axis in self.totals.axes[:-2]]
                to.builder.insert(self._product(to, ref, [*place, Expr()], (a, b), at))
        Rewriter.replace_op(last, tile.YieldOp(), [])
        erase_unused(self.op)

    def _product(
        self,
        to: ReduceLowering,
        ref: SSAValue,
        place: list[Expr],
        factors: tuple[Matrix | Factor, Matrix],
        at: dict[SSAValue, Expr],
    ) -> Operation:
        a, b = factors
        if isinstance(a, Factor):
            held = [*(at.get(axis, Expr.of(axis)) for axis in a.axes), Expr()]
            second = self._descriptor(to, b, at)
            return kernel.WgmmaHeldOp(
                self.shape, ref, place, a.ref, held, second, n_major=b.along_rows
            )
        first, second = self._descriptor(to, a, at), self._descriptor(to, b, at)
        return kernel.WgmmaOp(
            self.shape, ref, place, first, second, m_major=a.along_rows, n_major=b.along_rows
        )

    @contextmanager
    def _over_tiles(self, to: ReduceLowering) -> Iterator[dict[SSAValue, Expr]]:
        """Inserts into unrolled loops over the register axes of the sums, a product at a time."""
        tiles = self.shape.sizes.n // ROW_GROUP
        with ExitStack() as stack:
            at: dict[SSAValue, Expr] = {}
            for axis in self.totals.axes[:-2]:
                each = tiles if axis is self.columns else 1
                count = extent_of_register(axis) // each
                if count == 1:
                    at[axis] = Expr()
                    continue
                index = stack.enter_context(to.loop(count, axis.name_hint, unroll=True))
                at[axis] = Expr.of(index) * each
            yield at

    def _descriptor(self, to: ReduceLowering, matrix: Matrix, at: dict[SSAValue, Expr]) -> SSAValue:
        start = [e.substitute(at.get) for e in matrix.start]
        if self.columns is not None:  # the matrix begins where this axis is at 0
            shift = at[self.columns] * ROW_GROUP
            side = 1 if matrix.along_rows else 0
            if _is_of_columns(matrix, self.columns):
                start[side - 2] = start[side - 2] + shift
        told = kernel.MatrixDescriptorOp(
            matrix.load.ref, start, matrix.leading, matrix.stride, matrix.swizzle
        )
        return to.insert(told, f"{matrix.load.result.name_hint or 'factor'}_matrix")


def _factor(to: ReduceLowering, op: tile.ReduceOp, held: Held) -> Factor:
    """Copies what lanes hold of a factor to where products read it, all of it before the first."""
    assert op.mma is not None
    load, (rows, _) = held.load, sides(op)
    varies = to.along([load.result])
    around = [axis for axis in registers_around(op) if axis in varies and axis not in op.lanes]
    axes = (*op.axes_of(SERIAL), *around)
    shape = [*(op.extent(a) for a in op.axes_of(SERIAL)), *map(extent_of_register, around)]
    width, type = rows.fragment.width, load.result.type
    lane = Expr.of(to.insert(kernel.IndexOp(lane_of(op)), "lane"))
    name = f"{load.result.name_hint or 'factor'}_part"
    array = to.insert(kernel.AllocLocalOp(type, [*shape, width]), name)
    with ExitStack() as stack:
        loops = [
            stack.enter_context(to.loop(count, axis.name_hint, unroll=True))
            for axis, count in zip(axes, shape, strict=True)
        ]
        at = dict[SSAValue, Expr](zip(axes, map(Expr.of, loops), strict=True))
        for n in range(width):
            place = [e.substitute(at.get) for e in rows.element(load.subscripts, lane, n)]
            element = to.insert(tile.LoadOp(load.ref, place), load.result.name_hint)
            to.builder.insert(
                kernel.StoreOp(element, array, [*(at[axis] for axis in axes), Expr((), n)])
            )
    return Factor(array, axes)


def _is_of_columns(matrix: Matrix, columns: BlockArgument) -> bool:
    """True for B."""
    return any(columns in e.values() for e in matrix.load.subscripts)
