"""Between which numbers a float of a loop kernel lies, as far as its operations tell."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import exp, inf, sqrt

from xdsl.dialects import arith, math
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
    ranges: dict[SSAValue, Range] = {}
    pending = [value]
    while pending:
        if missing := [v for v in _bounding(pending[-1]) if v not in ranges]:
            pending += missing
        elif (known := pending.pop()) not in ranges:
            ranges[known] = _range(known, ranges)
    return ranges[value]


def _bounding(value: SSAValue) -> Sequence[SSAValue]:
    """The values whose bounds tell those of a value."""
    op = value.owner
    if isinstance(op, Block | arith.ConstantOp):
        return ()
    if isinstance(op, ReduceOp):
        is_sum = op.monoid_name.data == "add" and len(op.results) == 1
        return op.yielded.values if is_sum else ()
    return op.operands[-2:] if isinstance(op, SelectOp | arith.SelectOp) else op.operands[:2]


def _range(value: SSAValue, ranges: Mapping[SSAValue, Range]) -> Range:
    """The range of a value, given those that bound it."""
    op, bounding = value.owner, [ranges[v] for v in _bounding(value)]
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
        return op.value.value.data, op.value.value.data
    if isinstance(op, Block) or not bounding:
        return ANY
    if isinstance(op, ReduceOp):
        return _sum(op, *bounding)
    if isinstance(op, SelectOp | arith.SelectOp):
        a, b = bounding
        return min(a[0], b[0]), max(a[1], b[1])
    return _scalar(op, *bounding)


def _scalar(op: Operation, first: Range, other: Range = ANY) -> Range:
    """The range of an elementwise operation, given those of its first operands."""
    low, high = first
    match op.name:
        case "math.exp":
            return _exp(low), _exp(0 if covers(op.operands[0]) else high)
        case "math.sqrt":
            largest = sys.float_info.max if op.results[0].type == f64 else LARGEST_F32
            return sqrt(max(low, 0)), sqrt(max(min(high, largest), 0))
        case "math.sigmoid":
            return 0, 1
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


def _sum(reduce: ReduceOp, term: Range) -> Range:
    """Of terms that are not negative; of powers of e at least 1 if one of them is that of 0."""
    low, high = term
    if low < 0:
        return ANY
    power, least = reduce.yielded.values[0].owner, 0
    if isinstance(power, math.ExpOp) and not reduce.yielded.where:
        least = 1 if covers(SSAValue.get(power.operands[0]), reduce) else 0
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
