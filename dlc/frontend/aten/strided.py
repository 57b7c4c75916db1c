"""
Tensors by sizes and strides: elements of one that lies in memory in row-major order, from its
first element on, by where they lie there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch._ops import OperatorBase

aten = torch.ops.aten


OF_ANOTHER = (
    "as_strided is given a view, whose memory is that of another tensor, expected a tensor in "
    "row-major order; use clone() first, or slices and permutations"
)


class NotRowMajor(Exception):
    """Says that a tensor is a view of memory that a compiled program does not see."""


def places(value: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Tensor:
    """The number of each element in row-major order; NotRowMajor for a view of another tensor."""
    if not value.is_contiguous() or value.storage_offset():
        raise NotRowMajor(OF_ANOTHER)
    found = torch.full([1] * len(size), offset or 0, device=value.device)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        line = torch.arange(extent, device=value.device) * step
        found = found + line.reshape([extent if d == axis else 1 for d in range(len(size))])
    return found


def as_strided(
    value: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    # A subscript would be made a number of Python where the result has no dimensions.
    return aten.index.Tensor(value.reshape(-1), [places(value, size, stride, storage_offset)])


def as_strided_scatter(
    value: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    at = places(value, size, stride, storage_offset)
    return value.reshape(-1).index_put([at], src.to(value.dtype)).reshape(value.shape)


def resize(
    value: Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> Tensor:
    """`aten.resize`: as many elements as there are; of what is beyond them, 0 is as good as any."""
    if memory_format not in (None, torch.contiguous_format, torch.preserve_format):
        raise NotRowMajor(f"resize_ is given {memory_format}, expected torch.contiguous_format")
    if not value.is_contiguous() or value.storage_offset():
        raise NotRowMajor(
            "resize_ is given a view, whose memory is that of another tensor, expected a tensor in "
            "row-major order; use clone() first"
        )
    count, given = prod(size), value.reshape(-1)
    if count > len(given):
        given = torch.cat([given, given.new_zeros(count - len(given))])
    return given[:count].reshape(size)


STRIDED: Mapping[OperatorBase, Callable[..., object]] = {
    aten.as_strided.default: as_strided,
    aten.as_strided_copy.default: as_strided,
    aten.as_strided_scatter.default: as_strided_scatter,
    aten.resize.default: resize,
}
