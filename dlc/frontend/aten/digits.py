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


MANTISSA = 52
"""Bits of f64 below those of the exponent, of which 1022 is that of numbers from 1/2 to 1."""
OF_EXPONENT = 0x7FF << MANTISSA


def split_bits(value: Tensor) -> tuple[Tensor, Tensor]:
    """Of f64: m with 1/2 <= |m| < 1 and e with x = m 2**e, by its bits."""
    small = value.abs() < torch.finfo(torch.float64).smallest_normal
    bits = torch.where(small, value * 2.0**54, value).view(torch.int64)
    mantissa = ((bits & ~OF_EXPONENT) | (1022 << MANTISSA)).view(torch.float64)
    exponent = ((bits & OF_EXPONENT) >> MANTISSA) - 1022 - small.long() * 54
    plain = (value != 0) & value.isfinite()
    return torch.where(plain, mantissa, value), torch.where(plain, exponent, 0)


def frexp(value: Tensor) -> tuple[Tensor, Tensor]:
    """`aten.frexp`: all but f64 in f64, which they are exact in."""
    if value.dtype is torch.float64:
        fraction, power = split_bits(value)
        return fraction, power.to(torch.int32)
    mantissa, exponent = split(value)
    return torch.copysign(mantissa, value.double()).to(value.dtype), exponent.to(torch.int32)


def next_bits(x: Tensor, y: Tensor) -> Tensor:
    """`aten.nextafter` of f64: numbers of one sign follow each other as their bits do."""
    outwards = (y > x) == (x > 0)
    bits = x.view(torch.int64) + torch.where(outwards, 1, -1)
    least = torch.ones_like(x).view(torch.int64).sign().view(torch.float64)
    result = torch.where(x == 0, torch.copysign(least, y), bits.view(torch.float64))
    return torch.where(x == y, y, torch.where(x.isnan() | y.isnan(), math.nan, result))


def nextafter(value: Tensor, other: Tensor) -> Tensor:
    """`aten.nextafter`: all but f64 in f64, which they are exact in."""
    if value.dtype is torch.float64:
        return next_bits(*torch.broadcast_tensors(value, other))
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
