"""Floats that NumPy lacks, bf16 and those of 8 bits, which are held in float32."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BFloat16Type, ReducedPrecisionFloatType
from xdsl.ir import Attribute

from dlc.ir.elements import element

Array: TypeAlias = NDArray[Any]
_SIGN = 0x80


def is_held(type: Attribute) -> bool:
    """True for what NumPy lacks."""
    return isinstance(type, BFloat16Type | ReducedPrecisionFloatType)


def bits_dtype(type: Attribute) -> np.dtype[Any]:
    """The type of the bits of such numbers in memory."""
    return np.dtype(np.uint16 if isinstance(type, BFloat16Type) else np.uint8)


def rounded(values: Array, type: Attribute) -> Array:
    """
    Any floats rounded to nearest, ties to even, by way of float32; NaN stays NaN.
    """
    return values_of(bits_of(np.asarray(values, np.float32), type), type)


def bits_of(values: Array, type: Attribute) -> Array:
    """The bits of numbers in float32, rounded."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    if isinstance(type, BFloat16Type):
        upper = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
        quiet = bits >> 16 | 0x40
        return np.where(np.isnan(values), quiet, upper).astype(np.uint16)
    assert isinstance(type, ReducedPrecisionFloatType)
    between = _between(type)
    size = np.minimum(np.abs(values), element(type).limit)
    code = np.searchsorted(between, size)  # where it is as far from two, the one before
    tie = (code < len(between)) & (between[np.minimum(code, len(between) - 1)] == size)
    code = np.where(np.isnan(values), _SIGN - 1, code + (tie & (code % 2 == 1)))
    return (code | bits >> 24 & _SIGN).astype(np.uint8)


def values_of(bits: Array, type: Attribute) -> Array:
    """The numbers, in float32, that have these bits."""
    if isinstance(type, BFloat16Type):
        return (bits.astype(np.uint32) << 16).view(np.float32)
    assert isinstance(type, ReducedPrecisionFloatType)
    return _numbers(type)[bits]


@cache
def _numbers(type: ReducedPrecisionFloatType) -> Array:
    """Those of all bits."""
    with np.errstate(invalid="ignore"):
        return np.array([type.decode_bits(n) for n in range(2 * _SIGN)], np.float32)


@cache
def _between(type: ReducedPrecisionFloatType) -> Array:
    """
    The numbers half-way between neighbours from 0 on, the last between the largest and what would
    come next.
    """
    numbers = _numbers(type)[:_SIGN]
    numbers = numbers[np.isfinite(numbers)]
    following = np.append(numbers[1:], 2 * numbers[-1] - numbers[-2])
    return (numbers + following) / 2
