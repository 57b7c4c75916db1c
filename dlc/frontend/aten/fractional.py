"""Pooling by windows whose places are drawn at random, and are given to the operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch._ops import OperatorBase


def begins(sample: Tensor, extent: int, count: int, size: int) -> Tensor:
    """For each sample the first points of `count` windows of a size; the last one ends the
    dimension."""
    place = torch.arange(count - 1, device=sample.device, dtype=sample.dtype)
    last = sample.new_full((*sample.shape, 1), extent - size, dtype=torch.int64)
    if count < 2:
        return last
    step = sample.new_full((), (extent - size) / (count - 1))
    sample = sample[..., None]
    first = ((place + sample) * step).to(torch.int64) - (sample * step).to(torch.int64)
    return torch.cat([first, last], -1)


def fractional_max_pool(
    value: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], samples: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest of each window, and its index in its plane."""
    space = len(kernel_size)
    count = prod(value.shape[:-space])
    planes = value.reshape(count, *value.shape[-space:])
    samples = samples.reshape(count, space)
    # Of two dimensions the first sample is that of the last one.
    order = [1, 0] if space == 2 else [0, 1, 2]
    place = torch.zeros((), dtype=torch.int64, device=value.device)
    axes = 2 * space
    for d, (extent, size, outputs) in enumerate(
        zip(planes.shape[1:], kernel_size, output_size, strict=True)
    ):
        first = begins(samples[:, order[d]], extent, outputs, size)
        point = first[..., None] + torch.arange(size, device=value.device)
        shape = [count, *[1] * axes]
        shape[1 + d], shape[1 + space + d] = outputs, size
        place = place * extent + point.reshape(shape)
    place = place.reshape(count, *output_size, prod(kernel_size))
    at = torch.arange(count, device=value.device).reshape(-1, *[1] * (space + 1))
    best = planes.reshape(count, prod(planes.shape[1:]))[at, place]
    nans = best.isnan()
    points = torch.arange(place.shape[-1], device=value.device)
    last = torch.where(nans, points, 0).amax(-1)  # of several NaNs
    chosen = torch.where(nans.any(-1), last, best.argmax(-1))
    index = place.gather(-1, chosen[..., None])[..., 0]
    shape = [*value.shape[:-space], *output_size]
    return best.amax(-1).reshape(shape), index.reshape(shape)


aten = torch.ops.aten
FRACTIONAL: Mapping[OperatorBase, Callable[..., object]] = {
    aten.fractional_max_pool2d.default: fractional_max_pool,
    aten.fractional_max_pool3d.default: fractional_max_pool,
}
