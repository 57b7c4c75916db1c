"""The dialect `math` of xDSL, with what MLIR's has besides."""

from __future__ import annotations

from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation
from xdsl.dialects.math import Math as XdslMath
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType


@irdl_op_definition
class ErfcOp(FloatingPointLikeUnaryMathOperation):
    """
    `1 - erf(x)` without cancellation: at 5 it is 1.5e-12, where the difference is 0 in fp32.

    ```
    %y = math.erfc %x : f32
    ```
    """

    name = "math.erfc"

    traits = traits_def(Pure(), SameOperandsAndResultType())


Math = Dialect("math", [*XdslMath.operations, ErfcOp])
