"""In how many parts of K a product may be stored whose reader adds them up."""

from __future__ import annotations

from dlc.dialects import loop
from dlc.dialects.layouts import shape_of
from dlc.schedule.contraction_tiles import Tiled, tiled_contraction
from dlc.schedule.tiling import best_candidate
from dlc.target import Target

MOST_ADDED = 16
"""Parts that a reader adds up at most: it has the addition of each written out."""


def possible_parts(kernel: loop.KernelOp) -> tuple[int, ...]:
    """
    The numbers of parts that a reader may add up: those that divide K, the only axis of a
    contraction and nothing else, which has no sizes and no conditions for what it sums.
    """
    tiled = _tiled(kernel)
    if tiled is None:
        return ()
    (length,) = tiled.found.reduce.all_extents
    return tuple(n for n in range(2, MOST_ADDED + 1) if length % n == 0)


def parts_for_readers(kernel: loop.KernelOp, target: Target) -> tuple[int, ...]:
    """
    Those that are worth trying: about as many as the best tiling has, which a second kernel would
    combine. None of a kernel that is not split so.
    """
    tiled = _tiled(kernel)
    best = None if tiled is None else best_candidate(tiled.problem, target)
    if best is None or best.splits == 1 or best.ending != "workspace":
        return ()
    counts = possible_parts(kernel)
    fewer = [n for n in counts if n <= best.splits]
    return (*fewer[-1:], *[n for n in counts if n > best.splits][:1])


def _tiled(kernel: loop.KernelOp) -> Tiled | None:
    if not all(isinstance(n, int) for ref in kernel.refs for n in shape_of(ref.type)):
        return None
    tiled = tiled_contraction(kernel)
    if tiled is None or tiled.found.reduce.yielded.where:
        return None
    extents = tiled.found.reduce.all_extents
    return tiled if len(extents) == 1 and isinstance(extents[0], int) else None
