"""
The dialect `math` of xDSL, with the functions of the table of scalars that it lacks.

```
%y = math.erfc %x : f32
```
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from xdsl.dialects.math import (
    FloatingPointLikeBinaryMathOperation,
    FloatingPointLikeUnaryMathOperation,
    SignlessIntegerLikeBinaryMathOperation,
)
from xdsl.dialects.math import Math as XdslMath
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from dlc.ir.scalar_ops import SCALARS

_KNOWN = {op.name: op for op in XdslMath.operations}


@cache
def operation(name: str) -> type[Operation]:
    """
    The operation of a row: xDSL's, or one that is made for it: of a float, or by a helper of two
    integers or floats.
    """
    if name in _KNOWN:
        return _KNOWN[name]
    row = SCALARS[name]
    base: type[IRDLOperation] = FloatingPointLikeUnaryMathOperation
    if row.helper:
        of_integers = SignlessIntegerLikeBinaryMathOperation
        base = FloatingPointLikeBinaryMathOperation if row.in_f64 else of_integers
    traits = traits_def(Pure(), SameOperandsAndResultType())
    members = {"name": name, "traits": traits, "__module__": __name__}
    made: Any = type(name, (base,), members)
    return irdl_op_definition(made)


class _Math(Dialect):
    """What plug-ins bring until it is loaded is in it."""

    @property
    def operations(self) -> Iterator[type[Operation]]:
        names = (name for name in SCALARS if name.startswith("math."))
        yield from map(operation, dict.fromkeys([*_KNOWN, *names]))


Math = _Math("math")
