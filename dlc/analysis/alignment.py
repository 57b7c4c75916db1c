"""How many consecutive elements an access can take at once: strides, offsets and alignment."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.dialects.builtin import MemRefType, NoneAttr, StridedLayoutAttr
from xdsl.ir import Attribute

from dlc.dialects.kernel import element_bytes
from dlc.ir.expr import Expr

MAX_BYTES = 16
"""The widest access of a thread (PTX ISA, ld.global.v4.b32)."""


def strides_of(type: MemRefType[Attribute]) -> tuple[int, ...]:
    """The strides of a memref in elements, outermost first."""
    if isinstance(type.layout, StridedLayoutAttr):
        return tuple(int(s.data) for s in type.layout.strides)  # pyright: ignore
    assert isinstance(type.layout, NoneAttr), f"unexpected layout {type.layout}"
    strides = [1]
    for extent in reversed(type.get_shape()[1:]):
        strides.append(strides[-1] * max(extent, 1))
    return tuple(reversed(strides[: type.get_num_dims()]))


def offset_of(type: MemRefType[Attribute], subscripts: Sequence[Expr]) -> Expr:
    """The linear offset of an element."""
    total = Expr()
    for subscript, stride in zip(subscripts, strides_of(type), strict=True):
        total = total + subscript * stride
    return total


def divisor(expr: Expr) -> int:
    """A number that divides the expression's value at every point; 0 for the constant 0."""
    return gcd(expr.constant, *(c for _, c in expr.terms))


def vector_width(type: MemRefType[Attribute], base: Sequence[Expr], alignment: int) -> int:
    """
    How many consecutive elements along the last dimension one access can take when it starts at
    `base` plus any multiple of the width there: 1, 2 or 4, at most 16 bytes.
    """
    if not type.get_shape() or strides_of(type)[-1] != 1:
        return 1
    size = element_bytes(type.element_type)
    offset = divisor(offset_of(type, base))
    width = MAX_BYTES // size
    while width > 1 and (offset % width or (width * size) > alignment):
        width //= 2
    return max(width, 1)
