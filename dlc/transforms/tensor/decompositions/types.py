"""PyTorch's rules for the type of a result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.dialects.builtin import (
    f32,
    i1,
    i16,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from dlc.dialects.layouts import element_of, shape_of
from dlc.dialects.torch import Argument
from dlc.ir.elements import ELEMENTS
from dlc.ir.sizes import Size
from dlc.transforms.tensor.decompositions.scalar import Number, is_float, is_unsigned, width

DTYPES: dict[str, Attribute] = {element.torch: element.type for element in ELEMENTS}


def dtype(argument: Argument, default: Attribute) -> Attribute:
    """The element type that an argument such as "float32" names; None stands for the default."""
    return default if argument is None else DTYPES[str(argument)]


def _category(element: Attribute) -> int:
    return 2 if is_float(element) else 0 if element == i1 else 1


def join(a: Attribute, b: Attribute) -> Attribute:
    """The type that two tensors of these types are computed in."""
    if a == b:
        return a
    if _category(a) != _category(b):
        return max(a, b, key=_category)
    if is_float(a):
        return f32 if width(a) == width(b) else max(a, b, key=width)
    if width(a) == width(b):  # bytes with and without a sign
        return i16
    return max(a, b, key=lambda element: (width(element), not is_unsigned(element)))


def promote(values: Sequence[SSAValue | Number | Size]) -> Attribute:
    """
    The type that operands are computed in: that of the tensors; tensors of rank 0, and then
    numbers, matter only where they are of a higher category (boolean, integer, float).
    """
    ranked = [v for v in values if isinstance(v, SSAValue) and shape_of(v)]
    single = [v for v in values if isinstance(v, SSAValue) and not shape_of(v)]
    numbers = [v for v in values if not isinstance(v, SSAValue)]
    groups = [
        [element_of(v) for v in ranked],
        [element_of(v) for v in single],
        [i1 if isinstance(v, bool) else i64 if isinstance(v, int | Size) else f32 for v in numbers],
    ]
    joined = [reduce(join, group) for group in groups if group]
    return reduce(lambda a, b: b if _category(b) > _category(a) else a, joined)
