"""Threads that hold parts of one value: their running number, and which of them share a warp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from dlc.ir.bounds import most
from dlc.ir.expr import Expr
from dlc.target import WARP


@dataclass(frozen=True)
class Lanes:
    """The lanes of a warp that hold parts of one result: so many, so far from each other."""

    count: int
    apart: int


def lanes_of(threads: Sequence[SSAValue], across: Sequence[SSAValue]) -> Lanes:
    """
    The lanes of a warp that exchange by shuffles what the points of `across` hold; `threads` are
    all parts of the thread's number, the last one fastest.
    """
    if not across:
        return Lanes(1, 1)
    first = threads.index(across[0])
    inner = threads[first + len(across) :]
    apart, width = count_of(inner), count_of(across)
    together = threads[first : first + len(across)] == across
    span = width * apart
    if not together or WARP % apart or (span % WARP and WARP % span):
        return Lanes(1, apart)
    return Lanes(min(width, WARP // apart), apart)


def count_of(threads: Sequence[SSAValue]) -> int:
    """How many values some parts of the thread's number have together."""
    return prod(int(most(thread)) + 1 for thread in threads)


def number_of(threads: Sequence[SSAValue]) -> Expr:
    """The running number along some parts of the thread's number, the last one fastest."""
    number = Expr()
    for thread in threads:
        number = number * count_of([thread]) + Expr.of(thread)
    return number
