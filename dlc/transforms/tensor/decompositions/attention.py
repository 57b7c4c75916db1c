"""Scaled dot-product attention."""

from __future__ import annotations

from math import inf
from math import sqrt as square_root

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.ir.expr import Expr
from dlc.transforms.tensor.decompositions.builder import dimension, dims, fixed, refuse
from dlc.transforms.tensor.decompositions.lowering import Lowered, Lowering, lower
from dlc.transforms.tensor.decompositions.products import contract
from dlc.transforms.tensor.decompositions.reductions import safe_softmax
from dlc.transforms.tensor.decompositions.scalar import Scalar, is_float


def _batch(c: Lowering, value: SSAValue, batch: list[int], grouped: bool) -> list[Expr]:
    """Subscripts of the leading dimensions; with grouped heads, several queries share a head."""
    source = shape_of(value)[:-2]
    first = len(batch) - len(source)
    if first < 0:
        refuse(f"expected {len(batch)} dimensions of heads at most, found {len(source)}")
    subscripts: list[Expr] = []
    for d, extent in enumerate(source, first):
        axis = dimension(d)
        if extent == batch[d]:
            subscripts.append(axis)
        elif grouped and d == len(batch) - 1 and extent:
            subscripts.append(axis // (batch[d] // extent))
        elif extent == 1:
            subscripts.append(fixed(0))
        else:
            refuse(f"expected a head count of 1 or {batch[d]}, found {extent}")
    return subscripts


@lower("scaled_dot_product_attention")
def attention(c: Lowering) -> Lowered:
    query, key, value = (c.tensor(name) for name in ("query", "key", "value"))
    if c.number("dropout_p", 0.0) != 0:
        refuse("it draws random numbers; set dropout_p to 0")
    if not is_float(c.element):
        refuse("expected queries of floats, found integers")
    mask, grouped = c.op.operand("attn_mask"), c.flag("enable_gqa")
    batch, (length, width) = list(c.shape[:-2]), shape_of(query)[-2:]
    keys = shape_of(key)[-2]
    if (found := [*shape_of(key)[-1:], *shape_of(value)[-2:-1]]) != [width, keys]:
        refuse(f"expected keys of width {width} and {keys} values, found {found[0]} and {found[1]}")
    given = c.optional_number("scale")
    scale = given if given is not None else 1.0 / square_root(width) if width else 1.0
    outer = dims(len(batch))
    first, second, last = (dimension(len(batch) + n) for n in range(3))

    scores = contract(
        c,
        query,
        key,
        [*_batch(c, query, batch, False), first, last],
        [*_batch(c, key, batch, grouped), second, last],
        [*batch, length, keys, width],
    )
    shape = [*batch, length, keys]
    if mask is None:
        scores = c.elementwise(lambda x: x * scale, scores, shape=shape, hint="scores")
    else:
        scores = _masked(c, scores, mask, scale)
    if c.flag("is_causal"):
        scores = c.move(scores, [*outer, first, second], shape, [first - second], -inf)
    weights = c.cast(safe_softmax(c, scores, len(shape) - 1), c.element)
    sums = contract(
        c,
        weights,
        value,
        [*outer, first, last],
        [*_batch(c, value, batch, grouped), last, second],
        [*batch, length, shape_of(value)[-1], keys],
    )
    return c.cast(sums, c.element, c.hint)


def _masked(c: Lowering, scores: SSAValue, mask: SSAValue, scale: float) -> SSAValue:
    """The scores scaled, and -inf where a boolean mask is false, or a mask of floats added."""

    def function(x: Scalar, m: Scalar) -> Scalar:
        scaled = x * scale
        return m.select(scaled, -inf) if element_of(mask) == i1 else scaled + m.to(x.element)

    return c.elementwise(function, scores, mask, shape=shape_of(scores), hint="scores")
