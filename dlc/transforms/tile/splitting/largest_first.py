"""A fold of powers of e over a chunk, as that of the largest exponent and then sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from xdsl.builder import Builder
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.dialects import tile
from dlc.ir.known_numbers import is_number
from dlc.ir.monoid import below


def find_largest_first(reduce: tile.ReduceOp) -> tuple[tile.ReduceOp, tile.ReduceOp]:
    """
    Puts two reduces in the place of one of `expsum`: of the largest exponent m, and of the sums of
    w·e^(x − m), or of w·e^x if m is infinite; of powers of 2 likewise. Returns both.
    """
    monoid = reduce.monoid_name.data
    extents, kinds = reduce.all_extents, [reduce.kind(a) for a in reduce.axes]
    types = [r.type for r in reduce.results]
    copy = reduce.clone()
    largest = tile.ReduceOp("max", extents, types[:1], copy.detach_region(copy.body), kinds)
    copy.erase()
    last = largest.yielded
    _replace_yield(last, tile.YieldOp(last.values[:1], last.where))
    _erase_dead(largest)
    body, last = reduce.detach_region(reduce.body), reduce.results[0].name_hint
    sums = tile.ReduceOp("add", extents, types[1:], body, kinds)
    yielded = sums.yielded
    x, *weights = yielded.values
    builder = Builder(InsertPoint.before(yielded))
    power = _power(builder, x, largest.results[0], monoid)
    values = [_weighted(builder, power, w) for w in weights]
    _replace_yield(yielded, tile.YieldOp(values, yielded.where))
    for op in (largest, sums):
        op.location = reduce.location
    largest.results[0].name_hint = last
    for old, new in zip(reduce.results[1:], sums.results, strict=True):
        new.name_hint = old.name_hint
    Rewriter.replace_op(reduce, [largest, sums], [*largest.results, *sums.results])
    return largest, sums


def _power(builder: Builder, x: SSAValue, m: SSAValue, monoid: str) -> SSAValue:
    """
    The power of x − m, and of x where m is infinite: whether it is, is asked once for all x of a
    row.
    """
    assert isinstance(x.type, AnyFloat)
    zero, infinity = (
        builder.insert(arith.ConstantOp(FloatAttr(v, x.type))).result for v in (0.0, inf)
    )
    infinite = builder.insert(arith.CmpfOp(builder.insert(math.AbsFOp(m)).result, infinity, "oeq"))
    origin = builder.insert(arith.SelectOp(infinite.result, zero, m)).result
    power = below(builder, builder.insert(arith.SubfOp(x, origin)).result, monoid)
    power.name_hint = "power"
    return power


def _weighted(builder: Builder, power: SSAValue, weight: SSAValue) -> SSAValue:
    if is_number(weight, 1):
        return power
    product = builder.insert(arith.MulfOp(power, weight)).result
    product.name_hint = "product"
    return product


def _replace_yield(old: Operation, new: tile.YieldOp) -> None:
    Rewriter.replace_op(old, new, [])


def _erase_dead(reduce: tile.ReduceOp) -> None:
    ops: Sequence[Operation] = list(reduce.body.block.ops)[:-1]
    for op in reversed(ops):
        if not any(r.uses for r in op.results):
            Rewriter.erase_op(op)
