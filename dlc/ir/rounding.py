"""
Conversions from and to f16 and bf16, which are storage: arithmetic is done in f32.

`arith.extf` and `arith.truncf` with the attribute `storage` read and write what memory holds of a
value; a value that never reaches memory need not be rounded. Without the attribute they are casts,
which the program asks for, and stay. (MLIR says the same by `fastmath<contract>` on both, which
xDSL's operations do not have.)
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

STORAGE = "storage"


def for_storage(op: Operation) -> Operation:
    """Marks a conversion as one that only memory asks for."""
    op.attributes[STORAGE] = UnitAttr()
    return op


def unrounded(op: Operation) -> SSAValue | None:
    """The value that a conversion gives back unless memory lies between; None for other ops."""
    if not isinstance(op, arith.ExtFOp) or STORAGE not in op.attributes:
        return None
    value = before_storage(op.result)
    return None if value is op.result else value


def before_storage(value: SSAValue) -> SSAValue:
    """
    A value without the rounding that only memory asks for, where it is a factor that was rounded to
    the type that its product has in memory; the value itself elsewhere.
    """
    if not isinstance(value.owner, arith.ExtFOp):
        return value
    narrow = value.owner.input.owner
    if not isinstance(narrow, arith.TruncFOp) or STORAGE not in narrow.attributes:
        return value
    return narrow.input if narrow.input.type == value.type else value
