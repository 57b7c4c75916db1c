"""Sums of frames that overlap, whose number is that of the frames over one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch._ops import OperatorBase
from torch.nn.functional import pad


def overlapped(frames: Tensor, length: int, step: int) -> Tensor:
    """
    (…, n, size) to (…, length): frame i is added at place i · step. A place is in as many frames as
    steps begin within a frame: with frames in rows of steps, row k of frame i is added to step
    i + k. Rows that are one element longer each, read as if they were not, lie so.
    """
    *batch, n, size = frames.shape
    count, turns = math.prod(batch), math.ceil(size / step)
    steps = n + turns - 1
    rows = pad(frames, (0, turns * step - size)).reshape(count, n, turns, step)
    longer = pad(rows.transpose(1, 2), (0, 0, 0, turns)).reshape(count, turns * (steps + 1), step)
    shifted = longer[:, : turns * steps].reshape(count, turns, steps, step)
    result = shifted.sum(1, dtype=frames.dtype).reshape(*batch, steps * step)
    return pad(result, (0, max(0, length - steps * step)))[..., :length]


def unfold_backward(grad: Tensor, sizes: Sequence[int], dim: int, size: int, step: int) -> Tensor:
    """`aten.unfold_backward`: frames along the last dimension, which began at places of `dim`."""
    if not sizes:
        return grad.reshape(grad.shape[1:])
    dim %= len(sizes)
    shape = [*sizes, size]
    shape[dim] = grad.shape[dim]
    frames = grad.expand(shape).movedim(dim, -2)
    return overlapped(frames, sizes[dim], step).movedim(-1, dim).contiguous()


def col2im(
    columns: Tensor,
    sizes: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """`aten.col2im`: the windows of an image, of which each is a column, added where they lay."""
    extents = [s + 2 * p for s, p in zip(sizes, padding, strict=True)]
    places = [
        (extent - d * (k - 1) - 1) // s + 1
        for extent, d, k, s in zip(extents, dilation, kernel, stride, strict=True)
    ]
    batch = columns.shape[:-2]
    windows = columns.reshape(*batch, -1, *kernel, *places)
    for axis in (1, 0):  # … kernel, places: of the rows after those of columns
        taps = windows.movedim((-3, -1) if axis else (-3, -2), (-1, -2))
        spread = pad(taps[..., None], (0, dilation[axis] - 1)).flatten(-2)
        whole = spread[..., : dilation[axis] * (kernel[axis] - 1) + 1]
        windows = overlapped(whole, extents[axis], stride[axis])
    rows, columns_ = (slice(p, p + s) for s, p in zip(sizes, padding, strict=True))
    return windows.transpose(-1, -2)[..., rows, columns_].contiguous()


OVERLAPPING: Mapping[OperatorBase, Callable[..., Tensor]] = {
    torch.ops.aten.unfold_backward.default: unfold_backward,
    torch.ops.aten.col2im.default: col2im,
}
