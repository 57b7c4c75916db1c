"""Which values are known to be a certain number."""

from __future__ import annotations

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue
from xdsl.traits import ConstantLike


def number_of(value: SSAValue | None) -> float | None:
    """The float that a value is, or None if it is no constant."""
    constant = None if value is None else ConstantLike.get_constant_value(value)
    return constant.value.data if isinstance(constant, FloatAttr) else None


def is_number(value: SSAValue | None, number: float) -> bool:
    """True if a value is the constant float `number`; 0 is -0, too."""
    return number_of(value) == number
