"""Which values are known to be a certain number."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue
from xdsl.traits import ConstantLike


def is_number(value: SSAValue | None, number: float) -> bool:
    """True if a value is the constant float `number`; 0 is -0, too."""
    constant = None if value is None else ConstantLike.get_constant_value(value)
    return isinstance(constant, FloatAttr) and constant.value.data == number
