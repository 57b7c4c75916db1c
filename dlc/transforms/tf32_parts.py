"""Elements of f32 as sums of two that tensor cores read."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i32
from xdsl.ir import SSAValue

from dlc.dialects.mma_layouts import TF32_MASK


def taken_apart(
    insert: Callable[..., SSAValue],
    constant: Callable[[FloatAttr | IntegerAttr], SSAValue],
    value: SSAValue,
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """
    Inserts what gives an element without the bits that tf32 lacks, the same or 0 if it is infinite,
    and the rest, which is 0 then, too.
    """
    bits = insert(arith.BitcastOp(value, i32))
    kept = insert(arith.AndIOp(bits, constant(IntegerAttr(TF32_MASK, i32))))
    big = insert(arith.BitcastOp(kept, f32), "big")
    rest = insert(arith.SubfOp(value, big), "rest")
    size = insert(math.AbsFOp(value))
    endless = insert(arith.CmpfOp(size, constant(FloatAttr(inf, f32)), "oeq"), "endless")
    zero = constant(FloatAttr(0.0, f32))
    finite, small = (insert(arith.SelectOp(endless, zero, v)) for v in (big, rest))
    return big, finite, small
