"""Derivatives that PyTorch does not take apart: of convolutions, means over windows and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from torch._ops import OperatorBase

from dlc.frontend.aten.overlapping import overlapped
from dlc.frontend.aten.resampling import between, cubic, cubic_between, step, triangle, weights

aten = torch.ops.aten


def convolution_backward(
    gradient: Tensor,
    value: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """
    `aten.convolution_backward` of a value (batch, channels, …): of the value, the weight and the
    bias, each a tensor where `mask` asks for it. That of a value is a convolution that goes the
    other way.
    """
    steps = list(stride), list(padding), list(dilation)
    of_value = of_weight = of_bias = None
    if mask[0]:
        rest = [
            size - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
            for size, n, k, s, p, d in zip(
                value.shape[2:], gradient.shape[2:], weight.shape[2:], *steps, strict=True
            )
        ]
        back = [0] * len(rest) if transposed else rest
        of_value = aten.convolution(gradient, weight, None, *steps, not transposed, back, groups)
        for axis, size in enumerate(value.shape[2:], 2):  # what output padding adds is of none
            of_value = of_value.narrow(axis, 0, size)
    if mask[1]:
        pair = (gradient, value) if transposed else (value, gradient)
        of_weight = _of_weight(*pair, weight.shape, *steps, groups)
    if mask[2]:
        of_bias = gradient.sum([0, *range(2, gradient.dim())])
    return of_value, of_weight, of_bias


def _of_weight(
    value: Tensor, gradient: Tensor, shape: Sequence[int],
    stride: list[int], padding: list[int], dilation: list[int], groups: int,
) -> Tensor:  # fmt: skip
    """
    Each tap of a weight (results, channels of a group, …) is a sum over all points of all images:
    a convolution whose images are the channels, and whose window is the gradient, with the steps
    between points for those between taps.
    """
    batch, points = value.shape[0], value.shape[2:]
    if batch == 0:
        return value.new_zeros(shape)
    channels = value.unflatten(1, (groups, shape[1]))  # batch, group, channel
    images = channels.permute(2, 1, 0, *range(3, channels.dim()))
    windows = gradient.transpose(0, 1)
    taps = aten.convolution(
        images.reshape(shape[1], groups * batch, *points), windows.contiguous(), None,
        dilation, padding, stride, False, [0] * len(stride), groups,
    )  # fmt: skip
    for axis, size in enumerate(shape[2:], 2):
        taps = taps.narrow(axis, 0, size)
    return taps.transpose(0, 1).contiguous()


def of_means(axes: int) -> Callable[..., Tensor]:
    """
    `aten.avg_pool2d_backward` or `avg_pool3d_backward`, of means over windows along the last axes:
    each window gives its points equal shares.
    """

    def backward(
        gradient: Tensor,
        value: Tensor,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_padding: bool,
        divisor: int | None,
    ) -> Tensor:
        windows = [list(given) * (axes if len(given) == 1 else 1) for given in (kernel, padding)]
        strides = list(stride) * (axes if len(stride) == 1 else 1) or windows[0]
        sizes = value.shape[-axes:]
        result = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
        result = result / divisor if divisor else result
        for axis, (size, k, p, s) in enumerate(zip(sizes, *windows, strides, strict=True), -axes):
            lines = result.movedim(axis, -1)
            if not divisor:
                first = torch.arange(lines.shape[-1], device=value.device) * s - p
                last = (first + k).clamp(max=size + p)
                if not count_padding:
                    first, last = first.clamp(min=0), last.clamp(max=size)
                lines = lines / (last - first)
            frames = lines[..., None].expand(*lines.shape, k)
            result = overlapped(frames, size + p, s)[..., p:].movedim(-1, axis)
        return result.to(gradient.dtype).contiguous()

    return backward


def of_adaptive_means(axes: int) -> Callable[..., Tensor]:
    """`aten._adaptive_avg_pool2d_backward` or `_adaptive_avg_pool3d_backward` likewise."""

    def backward(gradient: Tensor, value: Tensor) -> Tensor:
        pairs = zip(value.shape[-axes:], gradient.shape[-axes:], strict=True)
        return spread(gradient, [_bins(given, wanted, gradient) for given, wanted in pairs])

    return backward


def _bins(given: int, wanted: int, like: Tensor) -> Tensor:
    """What each of `wanted` means takes of each of the given points."""
    bins = torch.arange(wanted, device=like.device)[:, None]
    points = torch.arange(given, device=like.device)
    first, last = bins * given // wanted, ((bins + 1) * given + wanted - 1) // wanted
    return ((points >= first) & (points < last)) / (last - first).double()


def of_samples(shares: Callable[..., Tensor], flagged: bool) -> Callable[..., Tensor]:
    """
    The derivative of images at other sizes, of which `shares(given, wanted, align_corners, factor,
    like)` says what each of the wanted points takes of each of the given ones. `flagged` are
    operations that have an argument `align_corners`.
    """

    def backward(
        gradient: Tensor, wanted: Sequence[int], given: Sequence[int], *rest: bool | float | None
    ) -> Tensor:
        aligned, *factors = rest if flagged else (False, *rest)
        factors += [None] * (len(wanted) - len(factors))
        sizes = zip(given[2:], wanted, factors, strict=True)
        return spread(gradient, [shares(n, m, aligned, f, gradient) for n, m, f in sizes])

    return backward


def spread(gradient: Tensor, shares: Sequence[Tensor]) -> Tensor:
    """The sum of shares (wanted, given) of each of the last axes, of `wanted` points."""
    result = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
    for axis, share in enumerate(shares, -len(shares)):
        result = (result.movedim(axis, -1) @ share.to(result.dtype)).movedim(-1, axis)
    return result.to(gradient.dtype).contiguous()


def _by_kernel(
    rule: Callable[..., Tensor], kernel: Callable[[Tensor], Tensor], reach: int
) -> Callable[..., Tensor]:
    def shares(
        given: int, wanted: int, aligned: bool, factor: float | None, like: Tensor
    ) -> Tensor:
        return rule(given, wanted, aligned, factor, kernel, reach, like)

    return shares


def _nearest(offset: float) -> Callable[..., Tensor]:
    """
    Points are taken at `offset` of a wanted one, in f32, as PyTorch takes them: those at its start
    are the same along a dimension that keeps its size.
    """

    def shares(
        given: int, wanted: int, aligned: bool, factor: float | None, like: Tensor
    ) -> Tensor:
        points = torch.arange(wanted, device=like.device, dtype=torch.float32) + offset
        apart = step(given, wanted, False, factor, copies=offset == 0)
        places = (points * apart).to(torch.int64).clamp(max=given - 1)
        return (places[:, None] == torch.arange(given, device=like.device)).double()

    return shares


def of_largest(axes: int) -> Callable[..., Tensor]:
    """Of the largest of windows along the last axes, which the last argument has the places of."""

    def backward(gradient: Tensor, value: Tensor, *rest: object) -> Tensor:
        indices = rest[-1]
        assert isinstance(indices, Tensor)
        planes = torch.zeros_like(value, memory_format=torch.contiguous_format).flatten(-axes)
        found = planes.scatter_add(-1, indices.flatten(-axes), gradient.flatten(-axes))
        return found.view(value.shape)

    return backward


def shrink_backward(gradient: Tensor, value: Tensor, bound: float) -> Tensor:
    """`aten.softshrink_backward` and `hardshrink_backward`."""
    return torch.where((value >= -bound) & (value <= bound), 0, gradient)


UNCOPIED = partial(weights, copies=False)
"""As eager's derivatives have it, though what they are of copies what keeps its size."""
DERIVATIVES: Mapping[OperatorBase, Callable[..., object]] = {
    aten.convolution_backward.default: convolution_backward,
    aten.avg_pool2d_backward.default: of_means(2),
    aten.avg_pool3d_backward.default: of_means(3),
    aten._adaptive_avg_pool2d_backward.default: of_adaptive_means(2),
    aten._adaptive_avg_pool3d_backward.default: of_adaptive_means(3),
    aten.adaptive_max_pool2d_backward.default: of_largest(2),
    aten.adaptive_max_pool3d_backward.default: of_largest(3),
    aten.max_pool3d_with_indices_backward.default: of_largest(3),
    aten.softshrink_backward.default: shrink_backward,
    aten.hardshrink_backward.default: shrink_backward,
    aten.upsample_nearest1d_backward.default: of_samples(_nearest(0), False),
    aten.upsample_nearest2d_backward.default: of_samples(_nearest(0), False),
    aten.upsample_nearest3d_backward.default: of_samples(_nearest(0), False),
    aten._upsample_nearest_exact1d_backward.default: of_samples(_nearest(0.5), False),
    aten._upsample_nearest_exact2d_backward.default: of_samples(_nearest(0.5), False),
    aten._upsample_nearest_exact3d_backward.default: of_samples(_nearest(0.5), False),
    aten.upsample_linear1d_backward.default: of_samples(_by_kernel(between, triangle, 1), True),
    aten.upsample_bilinear2d_backward.default: of_samples(_by_kernel(between, triangle, 1), True),
    aten.upsample_trilinear3d_backward.default: of_samples(_by_kernel(between, triangle, 1), True),
    aten.upsample_bicubic2d_backward.default: of_samples(
        _by_kernel(between, cubic_between, 2), True
    ),
    aten._upsample_bilinear2d_aa_backward.default: of_samples(
        _by_kernel(UNCOPIED, triangle, 1), True
    ),
    aten._upsample_bicubic2d_aa_backward.default: of_samples(_by_kernel(UNCOPIED, cubic, 2), True),
}
