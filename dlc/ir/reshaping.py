"""Subscripts of tensors whose elements are read under another shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, SSAValue

from dlc.ir.expr import Expr
from dlc.ir.sizes import Size

_DIMENSIONS = Block(arg_types=[IndexType()] * 64)
"""Stand for the dimensions of what is built; PyTorch's tensors have at most 64."""


def dimension(number: int) -> Expr:
    """The dimension `d0`, `d1`, … of what is built."""
    return Expr.of(_DIMENSIONS.args[number])


def dimension_values(rank: int) -> Sequence[SSAValue]:
    """What `d0`, `d1`, … are in expressions, for their affine maps."""
    return _DIMENSIONS.args[:rank]


def fixed(number: int) -> Expr:
    """A subscript that is the same everywhere."""
    return Expr.of(number)


def reshaped(source: Sequence[int], target: Sequence[int]) -> list[Expr]:
    """
    For each dimension of `source` its subscript in terms of those of `target`, where both hold the
    same elements in row-major order. Dimensions are matched in the smallest groups of equal size,
    so that dimensions that stay need neither division nor remainder. NeedsNumber where that takes
    the number that a size is, as where one is divided by.
    """
    subscripts = [fixed(0) for _ in source]
    if 0 in source:
        return subscripts
    old = [d for d, extent in enumerate(source) if extent != 1]
    new = [d for d, extent in enumerate(target) if extent != 1]
    while old:
        count_old = count_new = 1
        while (size := prod(source[d] for d in old[:count_old])) != (
            other := prod(target[d] for d in new[:count_new])
        ):
            if _is_less(size, other):
                count_old += 1
            else:
                count_new += 1
        linear = fixed(0)
        for n, d in enumerate(new[:count_new]):
            linear = linear * target[d] + dimension(d) if n else dimension(d)
        stride = size
        for n, d in enumerate(old[:count_old]):
            stride //= source[d]
            part = linear // stride
            subscripts[d] = part % source[d] if n else part
        old, new = old[count_old:], new[count_new:]
    return subscripts


def _is_less(left: int, right: int) -> bool:
    """
    Which of two extents is less, that are not equal; of sizes, the one that the other is a multiple
    of. NeedsNumber where neither is.
    """
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    return right % left == Size.of(0) or (left % right != Size.of(0) and left < right)
