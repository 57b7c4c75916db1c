"""
The dialect `math` of xDSL, with the functions of the table of scalars that it lacks.

```
%y = math.erfc %x : f32
```
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.math import (
    FloatingPointLikeBinaryMathOperation,
    FloatingPointLikeUnaryMathOperation,
    SignlessIntegerLikeBinaryMathOperation,
)
from xdsl.dialects.math import Math as XdslMath
from xdsl.ir import Dialect, Operation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from dlc.ir.scalar_ops import SCALARS


def _missing() -> Iterator[type[Operation]]:
    """An operation for each row that xDSL has none for: of a float; of two integers or floats by
    a helper."""
    known = {op.name for op in XdslMath.operations}
    for name in SCALARS:
        if name.startswith("math.") and name not in known:
            traits = traits_def(Pure(), SameOperandsAndResultType())
            members = {"name": name, "traits": traits, "__module__": __name__}
            row = SCALARS[name]
            if row.helper and row.in_f64:
                pairs = (FloatingPointLikeBinaryMathOperation,)
                yield irdl_op_definition(type(name, pairs, members))
            elif row.helper:
                integers = (SignlessIntegerLikeBinaryMathOperation,)
                yield irdl_op_definition(type(name, integers, members))
            else:
                floats = (FloatingPointLikeUnaryMathOperation,)
                yield irdl_op_definition(type(name, floats, members))


Math = Dialect("math", [*XdslMath.operations, *_missing()])

OPERATIONS: dict[str, type[Operation]] = {op.name: op for op in Math.operations}
"""The operations of the dialect by name."""
