"""Between which numbers a float of a loop kernel lies, as far as its operations tell."""

from __future__ import annotations

import sys
from math import exp, inf, sqrt

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f64
from xdsl.ir import Block, Operation, SSAValue

from dlc.analysis.loop.loops import computed_alike, trip_count
from dlc.dialects.loop import ReduceOp, SelectOp

Range = tuple[float, float]
ANY: Range = (-inf, inf)
LARGEST_F32 = (2 - 2.0**-23) * 2.0**127
SMALLEST_F32 = 2.0**-126
"""The smallest float32 that is not subnormal."""


def float_range(value: SSAValue) -> Range:
    """
    Bounds of a value that is finite: NaN and infinities may come beside. Roundings are not counted,
    except that they keep their order.
    """
    op = value.owner
    if isinstance(op, Block):
        return ANY
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
        return op.value.value.data, op.value.value.data
    if isinstance(op, ReduceOp):
        return _sum(op) if op.monoid_name.data == "add" and len(op.results) == 1 else ANY
    if isinstance(op, SelectOp | arith.SelectOp):
        a, b = (float_range(v) for v in op.operands[-2:])
        return min(a[0], b[0]), max(a[1], b[1])
    return _scalar(op)


def _scalar(op: Operation) -> Range:
    """The range of an elementwise operation."""
    if not op.operands:
        return ANY
    low, high = float_range(op.operands[0])
    other = float_range(op.operands[1]) if len(op.operands) > 1 else ANY
    match op.name:
        case "math.exp":
            return _exp(low), _exp(0 if covers(op.operands[0]) else high)
        case "math.sqrt":
            largest = sys.float_info.max if op.results[0].type == f64 else LARGEST_F32
            return sqrt(max(low, 0)), sqrt(max(min(high, largest), 0))
        case "math.absf":
            return 0, max(abs(low), abs(high))
        case "arith.extf":
            return low, high
        case "arith.addf":
            return low + other[0], high + other[1]
        case "arith.mulf" if op.operands[0] is op.operands[1]:
            return 0, inf
        case "arith.mulf" if low >= 0 and other[0] >= 0:
            return low * other[0] if low and other[0] else 0, inf
        case "arith.divf" if low >= 0 and other[0] > 0:
            return 0, high / other[0]
        case "arith.maximumf":
            return max(low, other[0]), max(high, other[1])
        case _:
            return ANY


def _exp(x: float) -> float:
    return exp(x) if x < 700 else inf


def _sum(reduce: ReduceOp) -> Range:
    """Of terms that are not negative; of powers of e at least 1 if one of them is that of 0."""
    (term,) = reduce.yielded.values
    low, high = float_range(term)
    if low < 0:
        return ANY
    owner = term.owner
    one = getattr(owner, "name", "") == "math.exp" and not reduce.yielded.where
    least = 1 if one and covers(owner.operands[0], reduce) else 0  # pyright: ignore
    return least, high * trip_count(reduce)


def covers(value: SSAValue, reduce: ReduceOp | None = None) -> bool:
    """
    True if a value is a difference of a value and the largest of all such along the loops in which
    it stands, or along a reduce: never above 0, and 0 at one point of it.
    """
    op = value.owner
    if not isinstance(op, arith.SubfOp):
        return False
    largest, around = op.rhs.owner, reduce if reduce is not None else op.parent_op()
    if not isinstance(largest, ReduceOp) or largest.monoid_name.data != "max":
        return False
    if not isinstance(around, ReduceOp) or len(largest.results) != 1 or largest.yielded.where:
        return False
    if largest.extents != around.extents:
        return False
    axes = dict[SSAValue, SSAValue](zip(around.axes, largest.axes, strict=True))
    return computed_alike(op.lhs, largest.yielded.values[0], axes)
