"""
Sums of which threads add each chunk of K apart, as a long one would be off by more than may be.

Additions in order round a partial sum each: a chain of n terms is off by about 0.4 sqrt(n) ulp of
the largest sum. Twice what eager PyTorch is off may be, or sqrt(n) / 4 times, or 4 ulp
(`dlc.judge.accuracy`). Where results meet different points of a window, as those of transposed
convolutions with strides, libraries sum in other orders and are off by 1.5 ulp whatever n is, so
that a chain of more than a hundred terms may be too much: of 256 terms 6.5 ulp were measured, and 6
may be. Of sums that are added chunk by chunk, the longest chain has as many terms as there are
chunks, each the sum of a short one: four times less for chunks of 16.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import ClassVar

from dlc.ir.cached import cached
from dlc.schedule.candidate import Candidate
from dlc.schedule.contraction_tiles import Tiled
from dlc.schedule.long_sums import LONG
from dlc.target import MAX_REGISTERS

ADDED = 1.5
"""Instructions for a sum of a chunk: it is added to another, and two are set to zero at once."""
SLOWER = 1.2
"""The ratio of two times up to which what is more accurate is preferred."""


@dataclass(frozen=True)
class ApartCandidate(Candidate):
    """One whose threads sum each chunk apart, which they add to the sums of those before."""

    apart: ClassVar[bool] = True

    @cached
    def registers(self) -> int:
        return super().registers + self.sums

    @cached
    def beside(self) -> float:
        return super().beside + ADDED * self.sums


def with_long_sums_apart(tiled: Tiled, best: Candidate) -> Candidate:
    """
    The same tiling with chunks that are summed apart, if long sums skip some of their points, as
    libraries do not add one after the other, and it takes little longer; else as it is.
    """
    reduce, problem = tiled.found.reduce, tiled.problem
    terms = prod(map(reduce.hint, reduce.axes)) / best.splits
    chunked = tiled.is_chunked and best.chunks > 1
    if type(best) is not Candidate or not problem.skips or terms <= LONG or not chunked:
        return best
    apart = ApartCandidate(**{field.name: getattr(best, field.name) for field in fields(best)})
    fits = apart.registers <= MAX_REGISTERS and apart.seconds <= SLOWER * best.seconds
    return apart if fits else best
