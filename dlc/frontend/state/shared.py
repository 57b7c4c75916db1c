"""What values of a script share: who holds one sees what is done to it through another."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
import torch

from dlc.frontend.state.hidden_state import BUFFERS
from dlc.frontend.state.insides import held_in


def all_in(value: Any, *, in_copy: bool = False) -> Iterator[tuple[Any, bool]]:
    """
    A value and what it holds, in functions and modules, too; and of each whether a copy of the
    value, if there is one, has a copy of it: it has none of what functions and modules hold.
    """
    seen: set[tuple[int, bool]] = set()
    pending = [(value, in_copy)]
    while pending:
        inner, is_copied = pending.pop()
        if (id(inner), is_copied) in seen:
            continue
        seen.add((id(inner), is_copied))
        yield inner, is_copied
        if isinstance(inner, torch.nn.Module):
            pending += [(item, False) for item in vars(inner).values()]
        else:
            shared = isinstance(inner, FunctionType | type)
            pending += [(item, is_copied and not shared) for _, item in held_in(inner)]


def overlap(one: Any, other: Any) -> bool:
    """True if two tensors or arrays lie in memory that they may share."""
    (begin, end), (first, last) = _span(one), _span(other)
    return begin < last and first < end


def _span(value: Any) -> tuple[int, int]:
    """The first address of the memory that a tensor or array lies in, and the one behind it."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return 0, 0
        memory = value.untyped_storage()
        return memory.data_ptr(), memory.data_ptr() + memory.nbytes()
    if isinstance(value, np.ndarray):
        ways = [(n - 1) * stride for n, stride in zip(value.shape, value.strides, strict=True)]
        begin = value.ctypes.data
        below, above = (sum(f(0, way) for way in ways) for f in (min, max))
        return (begin + below, begin + above + value.itemsize) if value.size else (0, 0)
    if isinstance(value, BUFFERS) and len(value):
        return _span(np.frombuffer(value, np.uint8))
    return 0, 0
