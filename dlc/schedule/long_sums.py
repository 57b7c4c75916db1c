"""
In how many accumulators a thread adds a long sum: decided for `chunk-reduce{apart=true}`.

Each of n additions in order rounds a partial sum, so that the error of a sum of positive terms
grows as the square root of n; that of a sum in s accumulators is s times less. Additions of one
accumulator wait for each other, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from dlc.analysis.loop.contraction import contractions
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp

LONG = 64
"""Terms that a thread adds in one accumulator at most."""
LONGER = 256
"""Terms from which on a thread has eight accumulators, not four."""


def long_sums(kernel: loop.KernelOp) -> list[loop.ReduceOp]:
    """The sums of floats of a kernel that `chunk-reduce` takes apart if they are long."""
    products = {c.reduce for c in contractions(kernel)}
    return [
        op
        for op in kernel.walk()
        if isinstance(op, loop.ReduceOp)
        and op.rounds
        and op not in products
        and not any(isinstance(inner, AxesOp) for inner in op.body.walk())
    ]


def accumulators(sums: Sequence[Sequence[int]], run: int = 1) -> list[str]:
    """
    The step that takes sums apart, if one is long: each has the lengths of the loops in which a
    thread walks it, runs of `run` terms aside.
    """
    count = accumulator_count(sums, run)
    return [] if count is None else [f"chunk-reduce{{bk={count} apart=true}}"]


def accumulator_count(sums: Sequence[Sequence[int]], run: int = 1) -> int | None:
    """The accumulators of such sums; None if one does."""
    lengths = max(sums, key=prod, default=())
    terms = prod(lengths) * run
    if terms <= LONG or max(lengths) < 2:
        return None
    least = 4 if terms <= LONGER else 8
    fitting = [n for n in lengths if n >= least]
    length = fitting[-1] if fitting else max(lengths)
    counts = range(min(least, length), min(2 * least - 1, length) + 1)
    return min(counts, key=lambda n: (ceil(length / n) * n, n))
