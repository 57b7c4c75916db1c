"""
Sampling a volume at places that are data, and images at other sizes.

PyTorch's own functions take apart what gives images other sizes, where its CPU computes the same:
it copies along a dimension that keeps its size, whatever the factor, and weights of bytes are
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from itertools import product
from operator import and_
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch._ops import OperatorBase, OpOverloadPacket
from torch._prims_common import suggest_memory_format

from dlc.frontend.aten.python_kernels import python_kernels


def reflected(x: Tensor, twice_low: int, twice_high: int) -> Tensor:
    """Places outside of an interval, given by twice its ends, mirrored at these until inside."""
    if twice_low == twice_high:
        return torch.zeros_like(x)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    distance = (x - low).abs()
    flips = (distance / span).floor()
    rest = distance - flips * span
    return torch.where(flips % 2 == 0, rest + low, span - rest + low)


def place(at: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """The place in pixels of a coordinate from -1 to 1."""
    x = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
    if padding == 0:
        return x
    if padding == 2:
        ends = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
        x = reflected(x, *ends)
    return x.clamp(0, size - 1)


def grid_sampler_3d(
    value: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`aten.grid_sampler_3d`: trilinear (0) or of the nearest point (1)."""
    batch, channels, *sizes = value.shape
    coordinates = [grid[..., 2 - d] for d in range(3)]  # the last one is the depth
    places = [
        place(at, size, padding_mode, align_corners)
        for at, size in zip(coordinates, sizes, strict=True)
    ]
    axis = torch.arange(batch, device=value.device).reshape(batch, 1, 1, 1, 1)
    channel = torch.arange(channels, device=value.device).reshape(1, channels, 1, 1, 1)

    def read(points: Sequence[Tensor]) -> Tensor:
        bounds = zip(points, sizes, strict=True)
        inside = reduce(and_, ((p >= 0) & (p < n) for p, n in bounds))
        held = [p.clamp(0, n - 1).long()[:, None] for p, n in zip(points, sizes, strict=True)]
        return torch.where(inside[:, None], value[axis, channel, held[0], held[1], held[2]], 0)

    if interpolation_mode == 1:
        return read([p.round() for p in places])
    floors = [p.floor() for p in places]
    result = torch.zeros_like(value[:1, :1, :1, :1, :1])
    for corner in product((0, 1), repeat=3):
        weight = torch.ones_like(places[0])
        for p, first, step in zip(places, floors, corner, strict=True):
            weight = weight * ((p - first) if step else (first + 1 - p))
        read_at = [first + step for first, step in zip(floors, corner, strict=True)]
        result = result + read(read_at) * weight[:, None]
    return result


def triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def cubic(x: Tensor, a: float = -0.5) -> Tensor:
    """Keys' kernel with the `a` of antialiasing."""
    x = x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0))


def cubic_between(x: Tensor) -> Tensor:
    """The same with a = -3/4."""
    return cubic(x, -0.75)


def lanczos(x: Tensor) -> Tensor:
    """The kernel of three lobes."""
    return torch.where(x.abs() < 3, torch.sinc(x) * torch.sinc(x / 3), 0)


def step(
    given: int, wanted: int, align_corners: bool, factor: float | None, copies: bool = True
) -> float:
    """How far apart the wanted points are, in given ones; `copies`: as many are the same ones."""
    if align_corners:
        return (given - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / factor if factor and not (copies and given == wanted) else given / wanted


def weights(
    given: int, wanted: int, align_corners: bool, factor: float | None,
    kernel: Callable[[Tensor], Tensor], reach: int, like: Tensor, copies: bool = True,
) -> Tensor:  # fmt: skip
    """How much each of the given points counts in each of the wanted ones, without aliasing."""
    scale = step(given, wanted, align_corners, factor, copies)
    support, stretch = reach * max(scale, 1.0), max(scale, 1.0)
    # In f64, as there are few of them.
    centre = torch.arange(wanted, device=like.device, dtype=torch.float64) * scale + scale / 2
    point = torch.arange(given, device=like.device, dtype=torch.float64)
    first = (centre - support + 0.5).trunc().clamp(min=0)
    last = (centre + support + 0.5).trunc().clamp(max=given)
    inside = (point >= first[:, None]) & (point < last[:, None])
    found = torch.where(inside, kernel((point + 0.5 - centre[:, None]) / stretch), 0)
    shares = found / found.sum(1, keepdim=True)
    if not like.is_floating_point():
        return shares
    return shares.to(torch.promote_types(like.dtype, torch.float32))


def between(
    given: int, wanted: int, align_corners: bool, factor: float | None,
    kernel: Callable[[Tensor], Tensor], reach: int, like: Tensor,
) -> Tensor:  # fmt: skip
    """How much each of the given points counts in each of the wanted ones, between its nearest."""
    scale = step(given, wanted, align_corners, factor)
    point = torch.arange(wanted, device=like.device, dtype=torch.float64)
    place = point * scale if align_corners else (point + 0.5) * scale - 0.5
    near = place.floor()[:, None] + torch.arange(1 - reach, reach + 1, device=like.device)
    shares = kernel(place[:, None] - near)[..., None]
    columns = torch.arange(given, device=like.device, dtype=torch.float64)
    return torch.where(near.clamp(0, given - 1)[..., None] == columns, shares, 0).sum(1)


def of_bytes(value: Tensor, shares: Tensor) -> Tensor:
    """
    `value @ shares.t()` of bytes, the nearest ones: the shares are integers over a power of two,
    the largest for which they have 16 bits, as PyTorch's are.
    """
    bits = (32767.5 / shares.amax()).log2().floor().clamp(max=22)
    scaled = shares * torch.exp2(bits)
    whole = (scaled + torch.where(scaled < 0, -0.5, 0.5)).trunc().int()
    half = torch.exp2(bits - 1).int()
    return ((value.int() @ whole.t() + half) >> bits.int()).clamp(0, 255)


def resized_bytes(value: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """An image of bytes at another size, by the shares of points along its two dimensions."""
    across = of_bytes(value, columns)
    order = suggest_memory_format(value)
    return of_bytes(across.mT, rows).mT.to(value.dtype, memory_format=order)


def antialiased(kernel: Callable[[Tensor], Tensor], reach: int) -> Callable[..., Tensor]:
    """One of the operations `aten._upsample_…2d_aa`, by its kernel and how far that reaches."""

    def function(
        value: Tensor,
        output_size: Sequence[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        rows, columns = (
            weights(value.shape[d], output_size[d], align_corners, factor, kernel, reach, value)
            for d, factor in ((-2, scales_h), (-1, scales_w))
        )
        if not value.is_floating_point():
            return resized_bytes(value, rows, columns)
        wide = value.to(rows.dtype)
        return (rows @ (wide @ columns.t())).to(value.dtype)

    return function


Resizing = Callable[..., Tensor]
"""Of an image, the sizes that are wanted, perhaps a flag, and a factor a dimension, or None."""


def in_integers(function: Resizing, kernel: Callable[[Tensor], Tensor], reach: int) -> Resizing:
    """What `function` does to floats, and to bytes with weights that are integers."""

    def resized(
        value: Tensor, output_size: Sequence[int], align_corners: bool, *factors: float | None
    ) -> Tensor:
        if value.is_floating_point():
            return function(value, output_size, align_corners, *factors)
        rows, columns = (
            between(given, wanted, align_corners, factor, kernel, reach, value)
            for given, wanted, factor in zip(value.shape[2:], output_size, factors, strict=True)
        )
        return resized_bytes(value, rows, columns)

    return resized


def copying(op: OpOverloadPacket) -> Resizing:
    """PyTorch's function for an operation, but a copy along dimensions that keep their size."""
    function = decomposition_table[op.default]

    def resized(value: Tensor, output_size: Sequence[int], *rest: Any) -> Tensor:
        flags, factors = rest[: -len(output_size)], rest[-len(output_size) :]
        sizes = zip(value.shape[2:], output_size, factors, strict=True)
        kept = [None if size == wanted else factor for size, wanted, factor in sizes]
        return function(value, output_size, *flags, *kept)

    return resized


def overloads(op: OpOverloadPacket, resize: Resizing) -> Table:
    """Those of an operation: with a factor for each dimension, and with a list of them."""

    def apart(value: Tensor, output_size: Sequence[int], *rest: Any) -> Tensor:
        missing = len(op.default._schema.arguments) - 2 - len(rest)
        return resize(value, output_size, *rest, *[None] * missing)

    def listed(value: Tensor, output_size: Sequence[int] | None, *rest: Any) -> Tensor:
        *flags, factors = rest
        sizes = output_size or [int(n * f) for n, f in zip(value.shape[2:], factors, strict=True)]
        return apart(value, sizes, *flags, *(factors or ()))

    return {op.default: apart, op.vec: listed}


aten = torch.ops.aten
Table = Mapping[OperatorBase, Callable[..., object]]
RESAMPLING: Table = {
    aten.grid_sampler_3d.default: grid_sampler_3d,
    aten._upsample_bilinear2d_aa.default: antialiased(triangle, 1),
    aten._upsample_bicubic2d_aa.default: antialiased(cubic, 2),
    **overloads(aten.upsample_nearest2d, copying(aten.upsample_nearest2d)),
    **overloads(aten.upsample_linear1d, copying(aten.upsample_linear1d)),
    **overloads(
        aten.upsample_bilinear2d, in_integers(copying(aten.upsample_bilinear2d), triangle, 1)
    ),
    **overloads(aten.upsample_trilinear3d, copying(aten.upsample_trilinear3d)),
    **overloads(
        aten.upsample_bicubic2d,
        in_integers(decomposition_table[aten.upsample_bicubic2d.default], cubic_between, 2),
    ),
}
if hasattr(aten, "_upsample_lanczos2d_aa"):
    RESAMPLING = {**RESAMPLING, aten._upsample_lanczos2d_aa.default: antialiased(lanczos, 3)}


def resampling_kept_whole() -> AbstractContextManager[None]:
    """
    Tracers keep what gives images other sizes, and its derivatives, as operations: their own
    functions do not copy along dimensions that keep their size.
    """
    packets = (getattr(aten, name) for name in dir(aten) if "upsample" in name)
    ops = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    apart = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    return python_kernels(
        {op: {k: f for k, f in op.py_kernels.items() if k not in apart} for op in ops}
    )
