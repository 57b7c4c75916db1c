"""Products that tensor cores may compute, and how their factors are widened, where they are."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, IntegerType, i32
from xdsl.ir import SSAValue

Product = arith.MulfOp | arith.MuliOp
Widening = arith.ExtFOp | arith.ExtSIOp | arith.ExtUIOp


def product_of(value: SSAValue) -> Product | None:
    """The product that a value is, in f32 or in i32."""
    if not isinstance(value.owner, Product):
        return None
    is_summed = isinstance(value.type, Float32Type) or value.type == i32
    return value.owner if is_summed else None


def as_stored(factor: SSAValue) -> SSAValue:
    """A factor of a product before it is widened, if it is."""
    return factor.owner.input if isinstance(factor.owner, Widening) else factor


def factor_type(factor: SSAValue) -> str:
    """
    The type of a factor as it is stored, in `dlc.dialects.mma_layouts.TYPES` or not: of integers
    with the sign that it is widened by, such as `s8` or `u8`, as i8 alone does not tell.
    """
    stored = as_stored(factor).type
    if not isinstance(stored, IntegerType):
        return str(stored)
    sign = "u" if isinstance(factor.owner, arith.ExtUIOp) else "s"
    return f"{sign}{stored.bitwidth}"
