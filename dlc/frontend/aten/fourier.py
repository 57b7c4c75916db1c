"""
Discrete Fourier transforms as products with tables of cosines and sines.

A transform of n elements is a product with a table of n x n, or for n = a b one with a x a, factors
of unit length, and one with b x b, and so on (Cooley and Tukey's general step). The cost is n times
the sum of such factors, and n^2 where n is a prime. Angles are reduced exactly, as integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch._ops import OperatorBase

PLAIN = 32
"""Transforms of so many elements are one product."""


class Parts(NamedTuple):
    """A complex tensor; `im` is None if it is real."""

    re: Tensor
    im: Tensor | None

    def map(self, function: Callable[[Tensor], Tensor]) -> Parts:
        return Parts(function(self.re), None if self.im is None else function(self.im))

    @property
    def complex(self) -> Tensor:
        im = torch.zeros_like(self.re) if self.im is None else self.im
        return torch.view_as_complex(torch.stack([self.re, im], -1))


def roots(rows: int, columns: int, n: int, forward: bool, like: Tensor) -> tuple[Tensor, Tensor]:
    """
    The cosines and sines of `-+ 2 pi j k / n`: in fp64 of angles up to pi / 4, which come from the
    remainders of `4 j k` by integer arithmetic.
    """
    row, column = (torch.arange(count, device=like.device) for count in (rows, columns))
    quarters = (row[:, None] * column % n) * 4
    quadrant, rest = quarters // n, quarters % n
    beyond = rest * 2 > n
    angle = torch.where(beyond, n - rest, rest).double() * (math.pi / 2 / n)
    c, s = angle.cos(), angle.sin()
    c, s = torch.where(beyond, s, c), torch.where(beyond, c, s)
    odd, lower = quadrant % 2 == 1, quadrant >= 2
    c, s = torch.where(odd, -s, c), torch.where(odd, c, s)
    c, s = torch.where(lower, -c, c), torch.where(lower, -s, s)
    return c.to(like.dtype), (-s if forward else s).to(like.dtype)


def product(x: Parts, c: Tensor, s: Tensor, times: Callable[[Tensor, Tensor], Tensor]) -> Parts:
    """The complex product of `x` and `c + i s` by a real one."""
    if x.im is None:
        return Parts(times(x.re, c), times(x.re, s))
    return Parts(times(x.re, c) - times(x.im, s), times(x.re, s) + times(x.im, c))


def transform(x: Parts, forward: bool) -> Parts:
    """The transform of the last dimension."""
    n = x.re.shape[-1]
    first = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    if n <= PLAIN or first == 1:
        return product(x, *roots(n, n, n, forward, x.re), torch.matmul)
    second = n // first
    columns = x.map(lambda t: t.unflatten(-1, (first, second)).transpose(-1, -2))
    inner = transform(columns, forward)
    turned = product(inner, *roots(second, first, n, forward, x.re), torch.mul)
    outer = transform(turned.map(lambda t: t.transpose(-1, -2)), forward)
    return outer.map(lambda t: t.transpose(-1, -2).flatten(-2))


def along(x: Parts, dims: Sequence[int], forward: bool) -> Parts:
    for dim in dims:
        moved = transform(x.map(lambda t, d=dim: t.movedim(d, -1)), forward)
        x = moved.map(lambda t, d=dim: t.movedim(-1, d))
    return x


def scaled(x: Parts, normalization: int, count: int) -> Parts:
    """As the numbers 0, 1 and 2 of PyTorch say: by 1, by the root of the count, by the count."""
    if normalization == 0:
        return x
    factor = 1 / count if normalization == 2 else 1 / math.sqrt(count)
    return x.map(lambda t: t * factor)


def parts_of(value: Tensor) -> Parts:
    pairs = torch.view_as_real(value.resolve_conj())
    return Parts(pairs[..., 0], pairs[..., 1])


def _count(value: Tensor, dims: Sequence[int]) -> int:
    return math.prod(value.shape[dim] for dim in dims)


def complex_to_complex(
    value: Tensor, dim: Sequence[int], normalization: int, forward: bool
) -> Tensor:
    found = along(parts_of(value), dim, forward)
    return scaled(found, normalization, _count(value, dim)).complex


def real_to_complex(
    value: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    """The last dimension comes first; `onesided` leaves out half of what it gives."""
    found = along(Parts(value, None), dim[-1:], True)
    if onesided:
        half = value.shape[dim[-1]] // 2 + 1
        found = found.map(lambda t: t.narrow(dim[-1], 0, half))
    found = along(found, dim[:-1], True)
    return scaled(found, normalization, _count(value, dim)).complex


def complex_to_real(
    value: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Tensor:
    """The second half of the last dimension holds the conjugates of the first one, from behind."""
    *others, last = dim
    found = along(parts_of(value), others, False)
    half = found.map(lambda t: t.narrow(last, 0, last_dim_size // 2 + 1))
    mirrored = half.map(lambda t: t.narrow(last, 1, (last_dim_size - 1) // 2).flip(last))
    assert half.im is not None
    assert mirrored.im is not None
    whole = Parts(torch.cat([half.re, mirrored.re], last), torch.cat([half.im, -mirrored.im], last))
    count = _count(value, others) * last_dim_size
    return scaled(along(whole, [last], False), normalization, count).re


aten = torch.ops.aten
FOURIER: Mapping[OperatorBase, Callable[..., object]] = {
    aten._fft_c2c.default: complex_to_complex,
    aten._fft_r2c.default: real_to_complex,
    aten._fft_c2r.default: complex_to_real,
}
