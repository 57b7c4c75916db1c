"""The bits of elements as other types: `view` of a dtype. The first element has the lowest bits."""

from __future__ import annotations

from functools import reduce
from operator import or_

from xdsl.dialects.builtin import IntegerType, i1, i8
from xdsl.ir import Attribute

from dlc.dialects.layouts import element_of
from dlc.ir.elements import element
from dlc.transforms.tensor.decompositions.builder import dimension, dims
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.scalar import Scalar, is_unsigned


def whole(kind: Attribute) -> Attribute:
    """The integers with the bits of a type."""
    if kind == i1 or is_unsigned(kind):
        return i8
    return IntegerType(8 * element(kind).bytes)


@lower("view.dtype", "view_copy.dtype")
def view(c: Lowering) -> Lowered:
    value = c.tensor()
    source, target = element_of(value), c.element
    before, after = element(source).bytes, element(target).bytes
    if before == after:
        return c.elementwise(lambda x: x.bits_as(target), value, element=target)
    last = len(c.shape) - 1
    outer, inner = dims(last), dimension(last)
    if before > after:
        count, bits = before // after, 8 * after
        spread = c.move(value, [*outer, inner // count], c.shape)

        def part(x: Scalar, index: Scalar) -> Scalar:
            word = x.bits_as(whole(source))
            shift = ((index & (count - 1)) * bits).to(word.element)
            return (word >> shift).to(whole(target)).bits_as(target)

        return c.elementwise(part, spread, c.iota(last, c.shape), element=target)

    count, bits = after // before, 8 * before
    parts = [c.move(value, [*outer, inner * count + n], c.shape) for n in range(count)]

    def joined(*given: Scalar) -> Scalar:
        words = (x.bits_as(whole(source)).to(whole(target)) & (2**bits - 1) for x in given)
        shifted = [word << (n * bits) if n else word for n, word in enumerate(words)]
        return reduce(or_, shifted).bits_as(target)

    return c.elementwise(joined, *parts, element=target)
