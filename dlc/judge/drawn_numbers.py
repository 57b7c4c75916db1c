"""
The random numbers of Torch IR, by NumPy: what `decompositions/random_numbers.py` describes.

The integers, the uniform numbers and what the normal ones are made of are exact in the program's
types, so that a reference in fp64 has the same; of the normal ones, fp64 is the more accurate.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np
import torch

from dlc.ir.elements import ELEMENTS
from dlc.ir.scalar_functions import philox

_WORD = 2**32


def drawn(
    overload: str, given: dict[str, Any], dtype: torch.dtype, *, double: bool = False
) -> torch.Tensor:
    """
    The result, of type `dtype`, of an operation that draws; floats are fp64 if `double`. `given`
    are its arguments by name, with the state as `generator`.
    """
    seed, base = given["generator"].tolist()
    shape = torch.Size(given["size"])
    wide = dtype == torch.float64
    places = 2 if overload == "randn.generator" and wide else 1
    index = np.arange(shape.numel(), dtype=np.int64).reshape(shape)
    with np.errstate(over="ignore"):
        place = np.int64(base) + (index * places + given["offset"])
    bits = [philox(np.int64(seed), place + n).view(np.uint64) for n in range(places)]
    if overload == "rand.generator":
        result = _uniform(bits[0], dtype)
    elif overload == "randn.generator":
        result = _normal(bits, wide, double)
    else:
        result = _integer(bits[0], given["low"], given["high"])
    return torch.from_numpy(np.array(result)).to(
        torch.float64 if double and dtype.is_floating_point else dtype
    )


def _uniform(bits: Any, dtype: torch.dtype) -> Any:
    name = str(dtype).removeprefix("torch.")
    digits = next(row.digits for row in ELEMENTS if row.torch == name)
    if digits > 32:
        return (bits >> np.uint64(64 - digits)) * 2.0**-digits
    return ((bits & np.uint64(_WORD - 1)) >> np.uint64(32 - digits)) * 2.0**-digits


def _normal(bits: list[Any], wide: bool, double: bool) -> Any:
    if wide:
        first, second = (b >> np.uint64(11) for b in bits)
    else:
        first, second = bits[0] & np.uint64(_WORD - 1), bits[0] >> np.uint64(32)
    kind = np.float64 if wide else np.float32
    unit = 2.0 ** -(53 if wide else 32)
    u = np.asarray(first, kind) * kind(unit) + kind(unit / 2)
    v = np.asarray(second, kind) * kind(2 * pi * unit) + kind(pi * unit)
    if double:
        u, v = np.asarray(u, np.float64), np.asarray(v, np.float64)
    return np.sqrt(np.log(u) * -2) * np.sin(v)


def _integer(bits: Any, low: int, high: int) -> Any:
    count = high - low
    word = bits & np.uint64(_WORD - 1) if count < _WORD else bits
    with np.errstate(over="ignore"):
        return (word % np.uint64(count)).astype(np.int64) + np.int64(low)
