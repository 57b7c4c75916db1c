"""torch's dtypes for the elements of tensors and buffers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from xdsl.dialects.builtin import ComplexType, MemRefType, StringAttr, TensorType
from xdsl.ir import Attribute

from dlc.backend import BackendError
from dlc.dialects.layouts import shape_of
from dlc.dialects.user_outputs import is_complex
from dlc.ir.elements import find_element


def torch_dtype(type: Attribute) -> torch.dtype:
    """The dtype whose memory holds such elements; BackendError if torch has none."""
    if isinstance(type, ComplexType):
        return torch_dtype(type.element_type).to_complex()
    if (row := find_element(type)) is None:
        raise BackendError(f"expected elements that torch can hold, found {type}")
    return getattr(torch, row.torch)


def user_dtype(type: Attribute, attributes: Mapping[str, Attribute]) -> torch.dtype:
    """
    The dtype of the user's tensor for an argument or a result of `@main`: below Torch IR unsigned
    bytes are `i8`, and complex numbers pairs of reals, with a mark.
    """
    if attributes.get("dlc.dtype") == StringAttr("u8"):
        return torch.uint8
    assert isinstance(type, TensorType | MemRefType)
    dtype = torch_dtype(type.element_type)
    return dtype.to_complex() if is_complex(attributes) else dtype


def user_shape(type: Attribute, dtype: torch.dtype) -> tuple[int, ...]:
    """The shape of that tensor, which is of this dtype."""
    return shape_of(type)[:-1] if dtype.is_complex else shape_of(type)
