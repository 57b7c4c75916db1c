"""What counts the elements of a tensor: places of those that are not 0, repetitions, histograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch._ops import OperatorBase


def nonzero_static(value: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`aten.nonzero_static`: the first places that hold no 0, and a number in the place of more."""
    if not value.dim():
        return value.new_zeros((size, 0), dtype=torch.int64)
    counts = (value != 0).flatten().cumsum(0)
    place = torch.arange(size, device=value.device)
    if not value.numel():
        return torch.full((size, value.dim()), fill_value, device=value.device)
    at = torch.searchsorted(counts, place + 1)
    found = at < value.numel()
    columns: list[Tensor] = []
    for extent in reversed(value.shape):
        columns.insert(0, torch.where(found, at % extent, fill_value))
        at = at // extent
    return torch.stack(columns, 1)


def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """`aten.repeat_interleave.Tensor`: each place as often as the tensor there says."""
    if output_size is None:
        return NotImplemented
    place = torch.arange(output_size, device=repeats.device, dtype=repeats.dtype)
    return torch.searchsorted(repeats.cumsum(0, dtype=repeats.dtype), place, right=True).to(
        repeats.dtype
    )


def edges_between(low: Tensor, high: Tensor, bins: int) -> Tensor:
    """The ends of bins that divide a range evenly, which is of length 1 where it is empty."""
    empty = (low == high).to(low.dtype) / 2
    low, high = low - empty, high + empty
    step = (high - low) / bins
    place = torch.arange(bins + 1, device=low.device)
    upwards, downwards = low + step * place, high - step * (bins - place)
    return torch.where(place < (bins + 1) // 2, upwards, downwards)


def edges_of(rows: Tensor, bins: Sequence[int], range: Sequence[float] | None) -> list[Tensor]:
    """For each column of rows the ends of its bins: from its least to its largest number."""
    if range is not None:
        ends = [rows.new_full((), end) for end in range]
    elif rows.shape[0]:
        ends = [end for column in rows.unbind(1) for end in column.aminmax()]
    else:
        ends = [rows.new_full((), end) for end in (0.0, 1.0)] * len(bins)
    pairs = zip(ends[::2], ends[1::2], bins, strict=True)
    return [edges_between(low, high, count) for low, high, count in pairs]


def counted(rows: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """
    The histogram of rows, a dimension for each column: a bin holds its lower end, the last one
    also its upper end, and what is NaN or in no bin is not counted.
    """
    sizes = [len(e) - 1 for e in edges]
    place = torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)
    inside = torch.ones_like(place, dtype=torch.bool)
    for column, ends, bins in zip(rows.unbind(1), edges, sizes, strict=True):
        column = column.contiguous()
        at = torch.searchsorted(ends, column, right=True) - 1
        place = place * bins + torch.where(column == ends[-1], bins - 1, at)
        inside = inside & (column >= ends[0]) & (column <= ends[-1])
    total = prod(sizes)
    weights = torch.ones_like(rows[:, 0]) if weight is None else weight.reshape(-1)
    held = rows.new_zeros(total + 1)
    held = held.index_add(0, torch.where(inside, place, total), weights.to(rows.dtype))
    result = held[:total].reshape(sizes)
    if density:
        result = result / result.sum()
        for d, ends in enumerate(edges):
            shape = [1] * len(edges)
            shape[d] = -1
            result = result / (ends[1:] - ends[:-1]).reshape(shape)
    return result


def histogram(
    value: Tensor,
    bins: Tensor | int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """`aten.histogram`: the counts, and the ends of the bins."""
    rows = value.reshape(-1, 1)
    ends = bins.clone() if isinstance(bins, Tensor) else edges_of(rows, [bins], range)[0]
    return counted(rows, [ends], weight, density), ends


def bin_edges(
    value: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None, **options: object
) -> list[Tensor]:
    """`aten._histogramdd_bin_edges`."""
    return edges_of(value.reshape(-1, len(bins)), bins, range)


def counted_by_edges(
    value: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    """`aten._histogramdd_from_bin_tensors`."""
    return counted(value.reshape(-1, len(bins)), bins, weight, density)


def counted_by_number(
    value: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """`aten._histogramdd_from_bin_cts`."""
    return counted_by_edges(
        value, bin_edges(value, bins, range=range), weight=weight, density=density
    )


aten = torch.ops.aten
COUNTING: Mapping[OperatorBase, Callable[..., object]] = {
    aten.nonzero_static.default: nonzero_static,
    aten.repeat_interleave.Tensor: repeat_interleave,
    aten.histogram.bin_ct: histogram,
    aten.histogram.bins_tensor: histogram,
    aten._histogramdd_bin_edges.default: bin_edges,
    aten._histogramdd_from_bin_cts.default: counted_by_number,
    aten._histogramdd_from_bin_tensors.default: counted_by_edges,
}
