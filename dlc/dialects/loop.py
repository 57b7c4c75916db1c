"""
The `loop` dialect: one kernel is one loop nest over memrefs (Loop IR).

```
%y = loop.kernel @rms_norm(%x: memref<32x2048xf32> = %x, %w: memref<2048xf32> = %w)
    -> (%y: memref<32x2048xf32>) {
  %n = arith.constant 2.048000e+03 : f32
  loop.for %row in 32 {
    %ss = loop.reduce add %k in 2048 -> f32 {
      %a = loop.load %x[%row, %k] : memref<32x2048xf32>
      %sq = arith.mulf %a, %a : f32
      loop.yield %sq : f32
    }
    %mean = arith.divf %ss, %n : f32
    loop.for %c in 2048 {
      %b = loop.load %x[%row, %c] : memref<32x2048xf32>
      %o = arith.divf %b, %mean : f32
      loop.store %o, %y[%row, %c] : memref<32x2048xf32>
    }
  }
}
```

Scalars are `arith` and `math`. A `for` has independent points, but for what a `scan` in it folds of
them or a `sort` puts in order (`dlc.dialects.scan_ops`); a `reduce` is an SSA value, so no
accumulator exists that could be read half-way. Subscripts and conditions: `dlc.dialects.access`.
"""

from __future__ import annotations

from math import isfinite

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, i64
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, lazy_traits_def, traits_def
from xdsl.traits import HasParent, RecursivelySpeculatable, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from dlc.dialects.access import (
    AtomicAddOpBase,
    IndexOpBase,
    LoadOpBase,
    SelectOpBase,
    StoreOpBase,
    YieldOpBase,
    verify_exact,
)
from dlc.dialects.canonical import ArithConstants
from dlc.dialects.in_place import verify_points
from dlc.dialects.kernel_op import KernelOpBase
from dlc.dialects.layouts import shape_of
from dlc.dialects.nest_ops import ForOpBase, ReduceOpBase
from dlc.dialects.scan_ops import AlongOpBase, ScanOpBase, SortOpBase, verify_sorted
from dlc.dialects.size_index import extents_at, size_expr
from dlc.dialects.stored_parts import verify_reads_of_parts
from dlc.ir.bounds import bounds, within
from dlc.ir.expr import Expr
from dlc.ir.sizes import Size

PARTS = "parts"
"""The attribute of a reduce that sums products of parts of factors (`split-factors`), as which tf32
loses no more than 3 * 2^-20 of a product of what they are parts of."""


@irdl_op_definition
class KernelOp(KernelOpBase):
    """`%y = loop.kernel @name(%x: memref = %a, …) -> (%y: memref, …) (schedule "…")? { … }`"""

    name = "loop.kernel"

    def verify_(self) -> None:
        super().verify_()
        for output, input in self.updated_refs.items():
            verify_points(output, input)
        verify_reads_of_parts(self)


@irdl_op_definition
class YieldOp(YieldOpBase):
    """`loop.yield %a, … (where (condition, …))? : type, …`: what a reduce folds."""

    name = "loop.yield"
    traits = lazy_traits_def(lambda: (HasParent(ForOp, ReduceOp),))


@irdl_op_definition
class ForOp(ForOpBase):
    """`loop.for %i in 4, %j in 8 { … }`: runs the body at every point, in any order."""

    name = "loop.for"
    traits = traits_def(RecursivelySpeculatable(), SingleBlockImplicitTerminator(YieldOp))


@irdl_op_definition
class ReduceOp(ReduceOpBase):
    """`%r = loop.reduce add %i in 4, %j in 8 -> f32 { … loop.yield %v : f32 }`"""

    name = "loop.reduce"
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp))


@irdl_op_definition
class ScanOp(ScanOpBase):
    """
    `%p = loop.scan add %a along %k : f32`: the fold of what a value is up to this point of the only
    axis of the loop that it stands in.
    """

    name = "loop.scan"

    def verify_(self) -> None:
        super().verify_()
        _loop_along(self)


@irdl_op_definition
class SortOp(SortOpBase):
    """
    `%s = loop.sort %a along %k : i64`: what a value is at the points of the only axis of the loop
    that it stands in, in rising order.
    """

    name = "loop.sort"

    def verify_(self) -> None:
        super().verify_()
        around = _loop_along(self)
        if around.is_size(around.axes[0]):
            raise VerifyException("expected a number of points to sort, found a size")
        points = around.extent(around.axes[0])
        verify_sorted([r.type for r in self.results], points)
        if self.first is not None and self.first > points:
            raise VerifyException(f"expected the first of {points} points, found {self.first}")


def _loop_along(op: AlongOpBase) -> ForOp:
    """The loop along whose axis an operation goes. VerifyException if there is none."""
    around = op.parent_op()
    if isinstance(around, ForOp) and len(around.axes) == 1 and op.place == Expr.of(around.axes[0]):
        return around
    what = op.name.partition(".")[2]
    raise VerifyException(
        f"expected a {what} along the axis of a loop.for that it stands in, which has no other"
    )


def scans_in(loop: ForOp) -> list[AlongOpBase]:
    """The scans and sorts along the axis of a loop."""
    return [op for op in loop.body.block.ops if isinstance(op, AlongOpBase)]


def has_ends_of_data(kernel: Operation) -> bool:
    """True if reduces of a kernel end where memory says: each thread walks as far as it has to."""
    return any(isinstance(op, ReduceOp) and op.about is not None for op in kernel.walk())


def sorts_in(loop: ForOp) -> list[SortOp]:
    """The sorts along the axis of a loop."""
    return [op for op in loop.body.block.ops if isinstance(op, SortOp)]


@irdl_op_definition
class LoadOp(LoadOpBase):
    """`%v = loop.load %x[expr, …] (where (condition, …) else %default)? : memref`"""

    name = "loop.load"


@irdl_op_definition
class StoreOp(StoreOpBase):
    """`loop.store %v, %y[expr, …] (where (condition, …))? : memref`, inside of the buffer."""

    name = "loop.store"

    def verify_(self) -> None:
        super().verify_()
        shape = shape_of(self.ref.type)
        for number, extent in enumerate(() if 0 in shape else extents_at(self.ref, self)):
            subscript = self.subscripts[number]
            low, high = bounds(subscript)
            if isfinite(low) and isfinite(high) and within(subscript, extent, self.where):
                raise VerifyException(
                    f"expected subscript {number} of %{self.ref.name_hint or 'output'} inside of "
                    f"its {shape[number]} elements, found {int(low)} to {int(high)}"
                )


@irdl_op_definition
class AtomicAddOp(AtomicAddOpBase):
    """
    `loop.atomic_add %v, %y[expr, …] (where (condition, …))? : memref`

    Adds, at each point of the loops around it, to a zeroed output: of integers, whose sums are the
    same in any order. Subscripts may be data.
    """

    name = "loop.atomic_add"

    def verify_(self) -> None:
        super().verify_()
        verify_exact(self.value.type)
        kernel = self.parent_op()
        while kernel is not None and not isinstance(kernel, KernelOp):
            kernel = kernel.parent_op()
        if kernel is not None and self.ref not in kernel.zeroed_refs:
            raise VerifyException(
                f"expected '{self.name}' to add to a zeroed output, found %{self.ref.name_hint}"
            )


@irdl_op_definition
class IndexOp(IndexOpBase):
    """`%i = loop.index expr`: an index expression as a value."""

    name = "loop.index"


@irdl_op_definition
class SelectOp(SelectOpBase):
    """`%v = loop.select %a where (condition, …) else %b : type`"""

    name = "loop.select"


def size_as_number(builder: Builder, size: Size, at: Operation, type: Attribute) -> SSAValue:
    """
    A size of the kernel that `at` stands in as a float, rounded once, or as an integer, wrapped.
    Errors of `size_expr`.
    """
    integer = _size_as_integer(builder, size, at)
    if type == i64:
        return integer
    if isinstance(type, IntegerType):
        return builder.insert(arith.TruncIOp(integer, type)).result
    assert isinstance(type, AnyFloat)
    return builder.insert(arith.SIToFPOp(integer, type)).result


def _size_as_integer(builder: Builder, size: Size, at: Operation) -> SSAValue:
    """A size as an `i64`, which a product of sizes is no index expression for."""
    if len(size.terms) == 1 and not size.constant:
        ((factors, coefficient),) = size.terms
        if len(factors) > 1:
            parts = [Size((((factor,), 1),)) for factor in factors]
            product = _size_as_integer(builder, parts[0] * coefficient, at)
            for part in parts[1:]:
                other = _size_as_integer(builder, part, at)
                product = builder.insert(arith.MuliOp(product, other)).result
            return product
    index = builder.insert(IndexOp(size_expr(size, at))).result
    return builder.insert(arith.IndexCastOp(index, i64)).result


Loop = Dialect(
    "loop",
    [
        KernelOp,
        ForOp,
        ReduceOp,
        ScanOp,
        SortOp,
        YieldOp,
        LoadOp,
        StoreOp,
        AtomicAddOp,
        IndexOp,
        SelectOp,
    ],
    [],
    [ArithConstants()],
)
