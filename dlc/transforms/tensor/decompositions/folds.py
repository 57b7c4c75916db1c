"""Monoids (`dlc.ir.monoid`) as decompositions use them: identities, folds, how scalars combine."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from dlc.dialects.tensor_ir import ReduceOp
from dlc.ir.monoid import MONOIDS
from dlc.transforms.tensor.decompositions.builder import TensorBuilder
from dlc.transforms.tensor.decompositions.scalar import Number, Scalar


def identities(monoid: str, elements: Sequence[Attribute]) -> list[Number]:
    """What changes nothing that it is combined with, as numbers of the element types."""
    found: list[Number] = []
    for attribute in MONOIDS[monoid].identity(elements):
        assert isinstance(attribute, FloatAttr | IntegerAttr)
        found.append(attribute.value.data)
    return found


def identity(monoid: str, element: Attribute) -> Number:
    """The identity of a monoid of single values."""
    return identities(monoid, [element])[0]


def combined(monoid: str, left: Sequence[Scalar], right: Sequence[Scalar]) -> list[Scalar]:
    """The combination of two elements of a monoid, each of as many scalars as it folds together."""
    body = left[0].body
    builder = Builder(InsertPoint.at_end(body.block))
    values = MONOIDS[monoid].combine(builder, [x.value for x in left], [y.value for y in right])
    return [Scalar(body, v, x.element) for v, x in zip(values, left, strict=True)]


def combine(monoid: str, left: Scalar, right: Scalar) -> Scalar:
    """The combination of two elements of a monoid of single values."""
    return combined(monoid, [left], [right])[0]


def folded(
    c: TensorBuilder, monoid: str, axes: Sequence[int], values: Sequence[SSAValue], hint: str
) -> list[SSAValue]:
    """The folds of tensors, all at once, over `axes`, which the results no longer have."""
    return list(c.insert(ReduceOp(monoid, list(axes), list(values)), hint).owner.results)  # pyright: ignore[reportAttributeAccessIssue]
