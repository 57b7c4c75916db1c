"""Random tensors for the arguments of a module's `@main`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute

from dlc.backend.dtypes import torch_dtype
from dlc.diagnostics import fail
from dlc.dialects.layouts import DEFAULT_ALIGNMENT, shape_of
from dlc.dialects.main_function import attributes_of, bounds_in, main_of
from dlc.frontend.aten.draws import random_state
from dlc.ir.span import span

_MAX_INTEGER = 8


def random_arguments(module: ModuleOp, seed: int) -> list[torch.Tensor]:
    """
    A tensor for each argument, with its `dlc.strides` and exactly its `dlc.align`. Floating-point
    numbers are normal, booleans even; integers are within `dlc.bounds`, else from 0 up to the least
    extent in the program's arguments (8 at most), so that they can serve as indices. Where random
    numbers are drawn of a state, that is `random_state`.
    """
    main = main_of(module)
    generator = torch.Generator().manual_seed(seed)
    types = [a.type for a in main.body.block.args if isinstance(a.type, TensorType | MemRefType)]
    if len(types) != len(main.body.block.args):
        fail(main, "expected tensors or buffers as the arguments of @main")
    given = list(zip(types, attributes_of(main), strict=True))
    extents = [n for t, attributes in given if not _is_state(attributes) for n in shape_of(t)]
    high = min([_MAX_INTEGER, *(n for n in extents if n > 0)])
    return [
        random_state(seed)
        if _is_state(attributes)
        else _random(t, attributes, bounds_in(attributes, main) or (0, high - 1), generator)
        for t, attributes in given
    ]


def _is_state(attributes: Mapping[str, Attribute]) -> bool:
    """True if an argument holds seed and offset of random numbers."""
    return attributes.get("dlc.kind") == StringAttr("random")


def _random(
    type: TensorType | MemRefType,
    attributes: Mapping[str, Attribute],
    bounds: tuple[int, ...],
    generator: torch.Generator,
) -> torch.Tensor:
    shape = shape_of(type)
    dtype = torch_dtype(type.element_type)
    strides = torch.empty(shape, device="meta").stride()
    if isinstance(stated := attributes.get("dlc.strides"), DenseArrayBase):
        strides = tuple(int(s) for s in stated.get_values())
    align = attributes.get("dlc.align")
    align = align.value.data if isinstance(align, IntegerAttr) else DEFAULT_ALIGNMENT
    memory = torch.empty(span(shape, strides) + DEFAULT_ALIGNMENT, dtype=dtype, device="cpu")
    skip = align % DEFAULT_ALIGNMENT // dtype.itemsize
    if dtype == torch.bool:
        memory.random_(0, 2, generator=generator)
    elif dtype.is_floating_point and dtype.itemsize == 1:  # PyTorch draws none
        memory.copy_(torch.empty(memory.shape).normal_(generator=generator))
    elif dtype.is_floating_point:
        memory.normal_(generator=generator)
    else:
        (low, high, *_), kind = bounds, torch.iinfo(dtype)
        memory.random_(max(low, kind.min), min(high, kind.max) + 1, generator=generator)
    return memory.as_strided(shape, strides, skip)
