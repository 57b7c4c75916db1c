"""
Which of the schedules that are about as fast at the likely sizes is the fastest for all sizes that
share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from dlc.dialects import loop
from dlc.dialects.size_binding import bound_kernel
from dlc.dialects.size_index import SizeIndexOp
from dlc.schedule.candidate import Candidate
from dlc.schedule.contraction_tiles import Tiled, tiled_contraction
from dlc.schedule.problem import Problem
from dlc.schedule.size_ranges import box_of, parts_of


def problems_around(kernel: loop.KernelOp) -> list[Problem]:
    """
    A contraction at the end of each part of the ranges of sizes that share kernels with those that
    are likely; none of a kernel without sizes, nor where other axes are its rows and columns. What
    tensor cores multiply at the likely sizes they do at smaller ones, too, at which K does not fill
    a step.
    """
    likely = None
    found: list[Problem] = []
    for values in _around(kernel):
        bound = bound_kernel(kernel, values)
        tiled = tiled_contraction(bound)
        if tiled is not None:
            likely = likely or _axes(tiled)
            if _axes(tiled) == likely:
                problem = tiled.problem
                tensor = problem.tensor or (found[0].tensor if found else None)
                found.append(replace(problem, tensor=tensor))
        bound.erase()
    return found[1:]


def _around(kernel: loop.KernelOp) -> Iterator[dict[str, int]]:
    """The likely sizes, and others of which one size is another."""
    symbols = [op.symbol for op in kernel.body.block.ops if isinstance(op, SizeIndexOp)]
    likely = {symbol.name: symbol.likely for symbol in symbols}
    if not symbols:
        return
    yield likely
    for symbol in symbols:
        least, most = symbol.bounds
        parts = parts_of(box_of({symbol.name: symbol.likely}))
        within = {int(min(max(high, least), most)) for ((_, _, high),) in parts}
        for n in sorted(within - {symbol.likely}):
            yield likely | {symbol.name: n}


def _axes(tiled: Tiled) -> tuple[int | None, ...]:
    return tuple(None if a is None else a.index for a in (tiled.row, tiled.column))


def steadiest(found: Sequence[Candidate], around: Sequence[Problem]) -> Candidate:
    """
    The candidate with the least geometric mean of its times, of which that of its own problem
    counts as much as those of all others.
    """

    def seconds(candidate: Candidate) -> float:
        others = (replace(candidate, problem=problem).seconds for problem in around)
        return prod(others, start=candidate.seconds ** len(around))

    return min(found, key=seconds) if around else found[0]
