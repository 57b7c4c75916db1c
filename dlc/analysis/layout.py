"""Where the elements of a memref lie: linear offsets, extents in memory, and what divides them."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.dialects.builtin import IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute, SSAValue

from dlc.analysis.alignment import offset_of, strides_of
from dlc.dialects import kernel
from dlc.ir.expr import Expr, FloorDiv, Mod


def linear_offset(type: MemRefType[Attribute], subscripts: Sequence[Expr]) -> Expr:
    """The distance of an element from the memref's address, in elements."""
    return offset_of(type, subscripts) + _layout_offset(type)


def span(type: MemRefType[Attribute]) -> int:
    """How many elements lie between a memref's address and the end of its last element."""
    shape = type.get_shape()
    if 0 in shape:
        return 0
    steps = zip(shape, strides_of(type), strict=True)
    return _layout_offset(type) + sum((n - 1) * stride for n, stride in steps) + 1


def _layout_offset(type: MemRefType[Attribute]) -> int:
    layout = type.layout
    if isinstance(layout, StridedLayoutAttr) and isinstance(layout.offset, IntAttr):
        return layout.offset.data
    return 0


def known_divisor(expr: Expr) -> int:
    """
    A number that divides the expression's value at every point; 0 for the constant 0. Index
    values that are computed, quotients and remainders are looked into.
    """
    return gcd(expr.constant, *(c * _atom_divisor(atom) for atom, c in expr.terms))


def _atom_divisor(atom: SSAValue | FloorDiv | Mod) -> int:
    match atom:
        case Mod():
            return gcd(known_divisor(atom.base), atom.divisor)
        case FloorDiv():
            divisor = known_divisor(atom.base)
            return divisor // atom.divisor if divisor % atom.divisor == 0 else 1
        case SSAValue():
            owner = atom.owner
            return known_divisor(owner.subscripts[0]) if isinstance(owner, kernel.IndexOp) else 1
