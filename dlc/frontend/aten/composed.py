"""ATen operations that PyTorch does not take apart, as a few others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch._ops import OperatorBase


def trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """`aten._trilinear`: three tensors, each with some more dimensions, multiplied and summed."""
    spread: list[Tensor] = []
    for value, dims in ((first, expand1), (second, expand2), (third, expand3)):
        for dim in sorted(dims):
            value = value.unsqueeze(dim)
        spread.append(value)
    product = spread[0] * spread[1] * spread[2]
    return product.sum(list(sumdim), dtype=product.dtype) if sumdim else product


def pdist(points: Tensor, p: float = 2.0) -> Tensor:
    """`aten._pdist_forward`: the distances of all pairs of rows."""
    n = points.shape[0]
    first, second = (points[at] for at in torch.triu_indices(n, n, 1, device=points.device))
    parts = first - second
    if p == 0:  # how many differ
        return torch.where(parts.isnan(), parts, (parts != 0).to(parts.dtype)).sum(-1)
    return torch.linalg.vector_norm(parts, p, dim=-1)


def int_mm(left: Tensor, right: Tensor) -> Tensor:
    """`aten._int_mm`: bytes multiplied and summed as 32-bit integers."""
    return left.to(torch.int32) @ right.to(torch.int32)


def scaled_mm(
    left: Tensor,
    right: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """
    `aten._scaled_mm`: floats of 8 bits multiplied and summed in f32, times a scale of each tensor,
    or of each row of `left` (rows, 1) and each column of `right` (1, columns), and with a bias of
    each column. With scales of blocks or of the result, or another bias, it is left whole.
    """
    of_rows = (left.shape[0], 1), (1, right.shape[1])
    of_tensors = scale_a.numel() == scale_b.numel() == 1
    if scale_result is not None or scale_a.dtype != torch.float32:
        return NotImplemented
    if bias is not None and bias.shape != right.shape[1:]:
        return NotImplemented
    if of_tensors:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    elif (scale_a.shape, scale_b.shape) != of_rows:
        return NotImplemented
    result = left.float() @ right.float() * scale_a * scale_b
    result = result if bias is None else result + bias
    return result.to(left.dtype if out_dtype is None else out_dtype)


def angle(value: Tensor) -> Tensor:
    """`aten.angle` of real numbers: 0 or pi. Of complex ones it is left whole."""
    if value.is_complex():
        return NotImplemented
    if not value.is_floating_point():
        value = value.to(torch.get_default_dtype())
    result = (value < 0).to(value.dtype) * math.pi
    return torch.where(value.isnan(), value, result)


def fake_quantize(
    value: Tensor, scale: Tensor | float, zero_point: Tensor | int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    """Numbers as integers from `low` to `high` of a scale hold them, and where those do."""
    level = (value.float() * (1.0 / scale)).round() + zero_point
    inside = (level >= low) & (level <= high)
    return ((level.clamp(low, high) - zero_point) * scale).to(value.dtype), inside


def fake_quantize_channels(
    value: Tensor, scale: Tensor, zero_point: Tensor, axis: int, low: int, high: int
) -> tuple[Tensor, Tensor]:
    shape = [-1 if d == axis else 1 for d in range(value.dim())]
    return fake_quantize(value, scale.view(shape), zero_point.view(shape), low, high)


def fake_quantize_if(
    value: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, low: int, high: int
) -> tuple[Tensor, Tensor]:
    result, inside = fake_quantize(value, scale, zero_point, low, high)
    return torch.where(enabled != 0, result, value), inside | (enabled == 0)


def softmax_backward(
    gradient: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> Tensor:
    """
    `aten._softmax_backward_data`, with the difference before the product, as eager takes it: the
    difference of two products, as PyTorch takes it apart, has lost more digits.
    """
    wide = torch.promote_types(output.dtype, torch.float32)
    gradient, output = gradient.to(wide), output.to(wide)
    total = (gradient * output).sum(dim, keepdim=True)
    return (output * (gradient - total)).to(input_dtype)


aten = torch.ops.aten


def index_add(
    value: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """`aten.index_add` at a list of places, which an index without dimensions is one of."""
    source = source if alpha == 1 else source * alpha
    return _put_lines(value, dim, index, source, accumulate=True)


def index_copy(value: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`aten.index_copy` likewise."""
    return _put_lines(value, dim, index, source, accumulate=False)


def _put_lines(
    value: Tensor, dim: int, index: Tensor, source: Tensor, *, accumulate: bool
) -> Tensor:
    """Those of `source` at places along `dim`, none of which counts from the end."""
    if value.dim() == 0:
        return _put_lines(value[None], 0, index, source, accumulate=accumulate)[0]
    places = index if index.dim() else index[None]
    indices = [None] * (dim % value.dim()) + [places]
    return aten._unsafe_index_put(value, indices, source, accumulate=accumulate)


COMPOSED: Mapping[OperatorBase, Callable[..., object]] = {
    aten._trilinear.default: trilinear,
    aten._softmax_backward_data.default: softmax_backward,
    aten._pdist_forward.default: pdist,
    aten.index_add.default: index_add,
    aten.index_copy.default: index_copy,
    aten._int_mm.default: int_mm,
    aten._scaled_mm.default: scaled_mm,
    aten.angle.default: angle,
    aten.fake_quantize_per_tensor_affine_cachemask.default: fake_quantize,
    aten.fake_quantize_per_channel_affine_cachemask.default: fake_quantize_channels,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: fake_quantize_if,
}
