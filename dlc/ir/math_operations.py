"""The operations of `math`: xDSL's, and those that are made for rows of the table of scalars."""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.dialects.math import (
    FloatingPointLikeBinaryMathOperation,
    FloatingPointLikeUnaryMathOperation,
    Math,
    SignlessIntegerLikeBinaryMathOperation,
)
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from dlc.ir.scalar_ops import SCALARS

KNOWN = {op.name: op for op in Math.operations}
"""Those of xDSL by name."""


@cache
def operation(name: str) -> type[Operation]:
    """
    The operation of a row: xDSL's, or one that is made for it: of a float or two, or by a helper of
    two integers or floats.
    """
    if name in KNOWN:
        return KNOWN[name]
    row = SCALARS[name]
    base: type[IRDLOperation] = FloatingPointLikeUnaryMathOperation
    if row.binary:
        base = FloatingPointLikeBinaryMathOperation
    elif row.helper and not row.unary:
        of_integers = SignlessIntegerLikeBinaryMathOperation
        base = FloatingPointLikeBinaryMathOperation if row.in_f64 else of_integers
    traits = traits_def(Pure(), SameOperandsAndResultType())
    members = {"name": name, "traits": traits, "__module__": __name__}
    made: Any = type(name, (base,), members)
    return irdl_op_definition(made)
