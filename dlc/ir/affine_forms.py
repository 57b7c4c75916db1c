"""Affine maps of xDSL, of which attributes are made, from and to index expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from dlc.ir.expr import Atom, Expr, FloorDiv, add_multiple, normalized


def from_affine(expr: AffineExpr, operands: Sequence[SSAValue | Expr]) -> Expr:
    """The expression that an affine expression over `operands` means, normalized."""
    parts, constant = _parts_of(expr)
    sums: dict[Atom, int] = {}
    for part, factor in parts:
        if isinstance(part, int):
            value = operands[part]
            found = value if isinstance(value, Expr) else Expr.of(value)
        else:
            found = _affine_term(part, operands)
        constant += add_multiple(found, factor, sums)
    return normalized(sums, constant)


_Parts = tuple[tuple[tuple[int | AffineBinaryOpExpr, int], ...], int]
"""The terms of an affine expression, dimensions by their numbers, with factors; a constant."""


def _parts_of(expr: AffineExpr) -> _Parts:
    """The sum that an affine expression is, kept with it, as it never changes."""
    kept = vars(expr)
    if (parts := kept.get("kept_parts")) is None:
        terms: list[tuple[int | AffineBinaryOpExpr, int]] = []
        constant = _add_parts(expr, 1, terms)
        parts = kept["kept_parts"] = tuple(terms), constant
    return parts


def _add_parts(
    expr: AffineExpr, factor: int, terms: list[tuple[int | AffineBinaryOpExpr, int]]
) -> int:
    """Appends the terms of `expr * factor`; the constant is returned."""
    match expr:
        case AffineConstantExpr():
            return expr.value * factor
        case AffineDimExpr():
            terms.append((expr.position, factor))
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            first = _add_parts(expr.lhs, factor, terms)
            return first + _add_parts(expr.rhs, factor, terms)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, rhs=AffineConstantExpr(value)):
            return _add_parts(expr.lhs, factor * value, terms)
        case AffineBinaryOpExpr():
            terms.append((expr, factor))
        case _:
            raise ValueError(f"not an index expression of this compiler: {expr}")
    return 0


def _affine_term(expr: AffineBinaryOpExpr, operands: Sequence[SSAValue | Expr]) -> Expr:
    """A product, quotient or remainder with a constant."""
    lhs, rhs = from_affine(expr.lhs, operands), from_affine(expr.rhs, operands)
    match expr.kind:
        case AffineBinaryOpKind.Mul if rhs.is_constant:
            return lhs * rhs.constant
        case AffineBinaryOpKind.Mul if lhs.is_constant:
            return rhs * lhs.constant
        case AffineBinaryOpKind.FloorDiv if rhs.is_constant and rhs.constant > 0:
            return lhs // rhs.constant
        case AffineBinaryOpKind.Mod if rhs.is_constant and rhs.constant > 0:
            return lhs % rhs.constant
        case _:
            raise ValueError(f"not an index expression of this compiler: {expr}")


Form = tuple[tuple[tuple[Any, int], ...], int]
"""
An expression whose values are numbered, so that it is equal for two that differ by values alone:
terms with factors, and a constant. A term is the number of a value, or a class of atoms, the form
of its base and its divisor.
"""


def to_affine(expr: Expr, operands: list[SSAValue]) -> AffineExpr:
    """`expr` as an affine expression over `operands`, which is extended as needed."""
    return _affine(form_of(expr, operands))


def form_of(expr: Expr, operands: list[SSAValue]) -> Form:
    """The form of `expr`, whose values have their places in `operands`, extended as needed."""
    parts: list[tuple[Any, int]] = []
    for atom, coefficient in expr.terms:
        if isinstance(atom, SSAValue):
            if atom not in operands:
                operands.append(atom)
            part = operands.index(atom)
        else:
            part = type(atom), form_of(atom.base, operands), atom.divisor
        parts.append((part, coefficient))
    return tuple(parts), expr.constant


def value_of(form: Form, values: Sequence[int]) -> int:
    """The number that an expression of a form has at a point."""
    terms, total = form
    for what, coefficient in terms:
        if isinstance(what, int):
            total += coefficient * values[what]
        else:
            kind, base, divisor = what
            number = value_of(base, values)
            total += coefficient * (number // divisor if kind is FloorDiv else number % divisor)
    return total


@lru_cache(16384)
def _affine(form: Form) -> AffineExpr:
    terms, constant = form
    parts: list[AffineExpr] = []
    for what, coefficient in terms:
        if isinstance(what, int):
            part = AffineExpr.dimension(what)
        else:
            kind, base, divisor = what
            part = _affine(base) // divisor if kind is FloorDiv else _affine(base) % divisor
        parts.append(part if coefficient == 1 else part * coefficient)
    if constant or not parts:
        parts.append(AffineExpr.constant(constant))
    total = parts[0]
    for part in parts[1:]:
        total = AffineBinaryOpExpr(AffineBinaryOpKind.Add, total, part)
    return total


def to_map(exprs: Iterable[Expr], operands: list[SSAValue]) -> AffineMap:
    """An affine map with one result per expression; `operands` is extended as needed."""
    forms = tuple([form_of(e, operands) for e in exprs])
    return _map(forms, len(operands)).data


def to_maps(exprs: Iterable[Iterable[Expr]], operands: list[SSAValue]) -> list[AffineMapAttr]:
    """Affine maps over the same operands; those that are equal are one object, most often."""
    forms = [tuple([form_of(e, operands) for e in of]) for of in exprs]
    return [_map(of, len(operands)) for of in forms]


@lru_cache(16384)
def _map(forms: tuple[Form, ...], count: int) -> AffineMapAttr:
    return AffineMapAttr(AffineMap(count, 0, tuple(map(_affine, forms))))
