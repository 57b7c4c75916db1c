"""Binary searches of which every step is known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from dlc.dialects.layouts import shape_of
from dlc.ir.sizes import Size
from dlc.schedule import orders
from dlc.transforms.tensor.decompositions.builder import Exprs, dimension
from dlc.transforms.tensor.decompositions.indexing import gathered
from dlc.transforms.tensor.decompositions.lowering import Lowering
from dlc.transforms.tensor.decompositions.scalar import Scalar


def strides(n: int) -> Iterator[int]:
    """
    By how much a number from 0 to `n` may grow, step by step, when each step asks whether it is at
    least so much larger. None leads beyond `n`.
    """
    while n:
        yield (n + 1) // 2
        n //= 2


def searching_pays(c: Lowering, n: int) -> bool:
    """True if a search among `n` elements is faster than comparisons with all of them, whose number
    must be known for that."""
    return not isinstance(n, Size) and orders.searching_pays(n, c.target)


def searched(
    c: Lowering,
    sequence: SSAValue,
    rows: Exprs,
    values: SSAValue,
    below: Callable[[Scalar, Scalar], Scalar],
    shape: Sequence[int],
) -> SSAValue:
    """
    How many elements of the last axis of a sorted sequence are `below` each of `values`, which have
    that shape; `rows` are the other subscripts of the sequence.
    """
    at = dimension(len(shape))
    found = c.constant(0, shape, i64)
    for stride in strides(shape_of(sequence)[-1]):
        element = gathered(c, sequence, [found], [*rows, at + (stride - 1)], shape)
        found = c.elementwise(
            lambda n, e, v, stride=stride: below(e, v).select(n + stride, n),
            found,
            element,
            values,
            shape=shape,
            hint="place",
        )
    return found
