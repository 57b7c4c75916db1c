"""How much memory a tensor's shape and strides go over."""

from __future__ import annotations

from collections.abc import Sequence


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The elements from the first to the last, those between included; 0 of a tensor of none."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
