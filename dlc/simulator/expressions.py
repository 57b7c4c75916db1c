"""
Index expressions and conditions as Python functions of the values of index operands.

A value is an `int` where all threads agree, else an array over the threads. The affine maps are
taken as they stand, not as `dlc.ir.expr` normalizes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

Index: TypeAlias = "int | NDArray[np.int64]"
Holds: TypeAlias = "bool | NDArray[np.bool_]"

_OPERATORS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.FloorDiv: "//",
    AffineBinaryOpKind.Mod: "%",
}


def compile_map(
    map: AffineMap, slots: Sequence[int], values: list[object]
) -> Callable[[], tuple[Index, ...]]:
    """The results of the map; operand n is `values[slots[n]]` when the function is called."""
    text = "".join(f"{_text(e, slots)}, " for e in map.results)
    return eval(f"lambda: ({text})", {"v": values})


def compile_conditions(
    map: AffineMap, slots: Sequence[int], values: list[object]
) -> Callable[[], Holds]:
    """Are all results of the map >= 0?"""
    text = " & ".join(f"({_text(e, slots)} >= 0)" for e in map.results)
    return eval(f"lambda: {text}", {"v": values})


def _text(expr: AffineExpr, slots: Sequence[int]) -> str:
    match expr:
        case AffineConstantExpr():
            return f"({expr.value})"
        case AffineDimExpr():
            return f"v[{slots[expr.position]}]"
        case AffineBinaryOpExpr() if expr.kind in _OPERATORS:
            operator = _OPERATORS[expr.kind]
            return f"({_text(expr.lhs, slots)} {operator} {_text(expr.rhs, slots)})"
        case _:
            raise ValueError(f"not an index expression of this compiler: {expr}")
