"""
Index expressions and conditions as Python functions of the values of index operands.

A value is an `int` where all threads agree, else an array over the threads. The affine maps are
taken as they stand, not as `dlc.ir.expr` normalizes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir.affine import AffineExpr, AffineMap

Index: TypeAlias = "int | NDArray[np.int64]"
Holds: TypeAlias = "bool | NDArray[np.bool_]"


def compile_map(
    map: AffineMap, slots: Sequence[int], values: list[object]
) -> Callable[[], tuple[Index, ...]]:
    """The results of the map; operand n is `values[slots[n]]` when the function is called."""
    text = "".join(f"{_python(e, slots)}, " for e in map.results)
    return eval(f"lambda: ({text})", {"values": values})


def compile_conditions(
    map: AffineMap, slots: Sequence[int], values: list[object]
) -> Callable[[], Holds]:
    """A function that is true where all results of the map are >= 0."""
    text = " & ".join(f"({_python(e, slots)} >= 0)" for e in map.results)
    return eval(f"lambda: {text}", {"values": values})


def _python(expr: AffineExpr, slots: Sequence[int]) -> str:
    """MLIR's text of an expression, which has parentheses around every operation, as Python's."""
    text = str(expr).replace("floordiv", "//").replace("mod", "%")
    return re.sub(r"d(\d+)", lambda dim: f"values[{slots[int(dim[1])]}]", text)
