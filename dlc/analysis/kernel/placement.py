"""Places in one workspace for buffers with a size and a life, so that it is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """Bytes that hold data from the step `first` to the step `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """True if both hold data in some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Placement:
    """A workspace of `size` bytes, and the first byte of each buffer in it."""

    offsets: tuple[int, ...]
    size: int


_ORDERS: tuple[Callable[[Buffer], tuple[int, int]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (-b.size * (b.last - b.first + 1), b.first),
    lambda b: (b.first, -b.size),
)


def place(buffers: Sequence[Buffer], alignment: int) -> Placement:
    """
    Offsets, multiples of `alignment`, such that buffers that meet do not overlap.

    The least workspace is NP-hard to find (dynamic storage allocation: Garey & Johnson, SR2). Here
    buffers are placed one after another, each in the smallest gap between those that it meets that
    takes it: by falling size, by falling size times life, and by first step, of which the smallest
    workspace is taken (cf. Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net
    Inference", 2020). It is at most the sum of all sizes and at least `live_bytes`.
    """
    best: Placement | None = None
    least = live_bytes(buffers, alignment)
    for key in _ORDERS:
        order = sorted(range(len(buffers)), key=lambda n: (*key(buffers[n]), n))
        found = _place_in_order(buffers, order, alignment)
        if best is None or found.size < best.size:
            best = found
        if best.size == least:
            break
    assert best is not None
    return best


def live_bytes(buffers: Sequence[Buffer], alignment: int = 1) -> int:
    """The most bytes that hold data in one step: no workspace is smaller."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        size = aligned(buffer.size, alignment)
        changes[buffer.first] = changes.get(buffer.first, 0) + size
        changes[buffer.last + 1] = changes.get(buffer.last + 1, 0) - size
    most = now = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most


def aligned(size: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `size`."""
    return -(-size // alignment) * alignment


def _place_in_order(buffers: Sequence[Buffer], order: Sequence[int], alignment: int) -> Placement:
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for number in order:
        buffer = buffers[number]
        size = aligned(buffer.size, alignment)
        taken = sorted(
            (offsets[n], offsets[n] + aligned(buffers[n].size, alignment))
            for n in placed
            if buffers[n].size and buffers[n].meets(buffer)
        )
        offsets[number] = _best_gap(taken, size)
        placed.append(number)
    ends = [offsets[n] + aligned(b.size, alignment) for n, b in enumerate(buffers)]
    return Placement(tuple(offsets), max(ends, default=0))


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between intervals that takes `size`, else their end."""
    best: tuple[int, int] | None = None
    end = 0
    for begin, after in taken:
        gap = begin - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, after)
    return end if best is None or size == 0 else best[1]
