"""Binary searches of which every step is known at compile time."""

from __future__ import annotations

from collections.abc import Iterator


def strides(n: int) -> Iterator[int]:
    """
    By how much a number from 0 to `n` may grow, step by step, when each step asks whether it is at
    least so much larger. None leads beyond `n`.
    """
    while n:
        yield (n + 1) // 2
        n //= 2
