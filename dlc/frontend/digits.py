"""Functions of the digits of numbers: parts of floats, and the next float."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch._ops import OperatorBase


def split(value: Tensor) -> tuple[Tensor, Tensor]:
    """In f64, which all halves and f32 are exact in: m from 1/2 to 1 and e with |x| = m 2**e."""
    size = value.double().abs()
    plain = (size > 0) & (size < math.inf)
    size = torch.where(plain, size, 1)
    exponent = size.log2().floor() + 1
    mantissa = size * torch.exp2(-exponent)
    # The logarithm next to a power of two may be that of the power.
    high, low = mantissa >= 1, mantissa < 0.5
    exponent = exponent + high.double() - low.double()
    mantissa = torch.where(high, mantissa * 0.5, torch.where(low, mantissa * 2, mantissa))
    return torch.where(plain, mantissa, value.double().abs()), torch.where(plain, exponent, 0)


def frexp(value: Tensor) -> tuple[Tensor, Tensor]:
    """`aten.frexp` of what has fewer digits than f64."""
    if value.dtype is torch.float64:
        return NotImplemented
    mantissa, exponent = split(value)
    return torch.copysign(mantissa, value.double()).to(value.dtype), exponent.to(torch.int32)


def nextafter(value: Tensor, other: Tensor) -> Tensor:
    """`aten.nextafter` of what has fewer digits than f64."""
    if value.dtype is torch.float64:
        return NotImplemented
    kind = torch.finfo(value.dtype)
    least = kind.smallest_normal * kind.eps
    x, y = value.double(), other.double()
    mantissa, exponent = split(value)
    outwards = torch.where(x == 0, True, (y > x) == (x > 0))
    # Below a power of two numbers are twice as near.
    near = (mantissa == 0.5) & ~outwards
    step = torch.exp2(exponent - near.double()) * kind.eps / 2
    step = torch.where(x == 0, least, step.clamp(min=least))
    size = x.abs() + torch.where(outwards, step, -step)
    size = torch.where(x.isinf(), kind.max, size)
    result = torch.copysign(size, torch.where(x == 0, y, x))
    result = torch.where(x == y, y, torch.where(x.isnan() | y.isnan(), math.nan, result))
    return result.to(value.dtype)


aten = torch.ops.aten
DIGITS: Mapping[OperatorBase, Callable[..., object]] = {
    aten.frexp.Tensor: frexp,
    aten.nextafter.default: nextafter,
}
