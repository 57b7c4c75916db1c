"""
How often the blocks of a kernel take its branches, where that depends on a block's number.

A causal mask leaves the first rows less to do than the last: a chunk of keys is skipped where a
condition on the block's number and the chunk's says so. Conditions are evaluated at the points of
the loops around them; what else they depend on, such as the thread, is taken to let them hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, SSAValue

from dlc.analysis.kernel.block_parts import parts_of
from dlc.analysis.kernel.index_values import index_at
from dlc.analysis.kernel.slots import trip_count
from dlc.dialects import kernel
from dlc.ir.expr import Expr, constant_of

MOST_POINTS = 1 << 12
"""Points of the loops around a condition up to which it is evaluated; it holds at more."""

Shares = Mapping[scf.IfOp, tuple[float, float]]
"""Of the times that a branch is reached, the share in which its condition holds, and the rest."""
_Key = tuple[int, ...]
_Times = dict[scf.IfOp, tuple[float, float, float]]
"""How often of all points a branch is reached, its condition holds, it does not."""


@dataclass(frozen=True)
class _Branch:
    op: scf.IfOp
    conditions: tuple[Expr, ...]
    """What has to be 0 or more, as far as it is known."""
    whole: bool
    """True if all of it is known."""
    around: tuple[tuple[_Branch, bool], ...]
    """The branches around it, and whether it is where their conditions hold."""
    loops: Mapping[SSAValue, range]
    """The loops around it whose counters the conditions read, those around it as well."""

    @property
    def reads_block(self) -> bool:
        return any(_reads_block(v) for e in self.conditions for v in e.values())

    def holds(self, values: dict[SSAValue, int]) -> bool:
        return all(
            expr.evaluate({v: index_at(v, values.get) for v in expr.values()}) >= 0
            for expr in self.conditions
        )

    def may_take(self, side: bool, values: dict[SSAValue, int]) -> bool:
        return self.holds(values) == side or (not side and not self.whole)

    def reached(self, values: dict[SSAValue, int]) -> bool:
        return all(branch.may_take(side, values) for branch, side in self.around)

    def times(self, known: Mapping[SSAValue, int]) -> tuple[float, float, float]:
        count = held = rest = 0
        for point in product(*self.loops.values()):
            values = {**known, **dict(zip(self.loops, point, strict=True))}
            if self.reached(values):
                count += 1
                held += self.may_take(True, values)
                rest += self.may_take(False, values)
        points = prod(map(len, self.loops.values()))
        return count / points, held / points, rest / points


class BlockBranches:
    """The branches of a kernel that some of its blocks take more often than others."""

    def __init__(self, func: kernel.FuncOp) -> None:
        self.func = func
        self._branches = [b for b in _branches(func.body.block, (), {}) if b.reads_block]
        concerned = [o for b in self._branches for o in (b, *(branch for branch, _ in b.around))]
        values = dict.fromkeys(v for b in concerned for e in b.conditions for v in e.values())
        read: list[SSAValue] = [v for v in values if _reads_block(v)]
        self._read: list[SSAValue] = [v for v in read if not any(_counters_of(v))]
        if len(self._read) < len(read):  # some are made of the block's number and of counters
            self._read += [op.result for op in _block_ids(func) if op.result not in self._read]
        self._times = dict[_Key, _Times]()

    def __bool__(self) -> bool:
        """False if all blocks do the same."""
        return bool(self._branches)

    def keys(self, most: int | None = None) -> list[_Key]:
        """
        For each block, in the order of their numbers, what the conditions read of its number; of
        more than `most` for so many of them, evenly apart.
        """
        step = 1 if most is None else -(-self.func.grid_size // most)
        numbers = list(_block_ids(self.func))
        parts = [part.blocks for part in parts_of(self.func)]
        alike = {block: part.start for part in parts for block in part}
        if any(not _tells_parts(op) for op in numbers if op.part is None):
            alike = {}
        return [
            tuple(index_at(read, _numbers(numbers, block, alike).get) for read in self._read)
            for block in range(0, self.func.grid_size, step)
        ]

    def shares(self, *keys: _Key) -> Shares:
        """Of the times that some blocks reach a branch, in how many they take which side."""
        found: dict[scf.IfOp, tuple[float, float]] = {}
        times = [self._times_of(key) for key in keys]
        for branch in self._branches:
            reached, held, rest = map(sum, zip(*(t[branch.op] for t in times), strict=True))
            found[branch.op] = (held / reached, rest / reached) if reached else (0, 0)
        return found

    def _times_of(self, key: _Key) -> _Times:
        if key not in self._times:
            known = dict(zip(self._read, key, strict=True))
            self._times[key] = {b.op: b.times(known) for b in self._branches}
        return self._times[key]


def _branches(
    block: Block, around: tuple[tuple[_Branch, bool], ...], loops: Mapping[SSAValue, range]
) -> Iterator[_Branch]:
    for op in block.ops:
        if isinstance(op, scf.ForOp):
            points = _points(op)
            inner = {**loops, op.body.block.args[0]: points} if points else loops
            yield from _branches(op.body.block, around, inner)
        elif isinstance(op, scf.IfOp):
            branch = _branch(op, around, loops)
            if branch is not None:
                yield branch
            for region, side in zip(op.regions, (True, False), strict=True):
                inside = around if branch is None else (*around, (branch, side))
                for inner in region.blocks:
                    yield from _branches(inner, inside, loops)


def _branch(
    op: scf.IfOp, around: tuple[tuple[_Branch, bool], ...], loops: Mapping[SSAValue, range]
) -> _Branch | None:
    """A branch whose condition is known for a block; None for one that depends on other things."""
    if not isinstance(test := op.cond.owner, kernel.TestOp):
        return None
    conditions = tuple(e for e in test.where if all(_known(v, loops) for v in e.values()))
    read = {c for e in conditions for v in e.values() for c in _counters_of(v)}
    read |= {v for branch, _ in around for v in branch.loops}
    own = {counter: points for counter, points in loops.items() if counter in read}
    if not conditions or prod(map(len, own.values())) > MOST_POINTS:
        return None
    return _Branch(op, conditions, len(conditions) == len(test.where), around, own)


def _points(op: scf.ForOp) -> range:
    """What a loop counts through; empty where its bounds are not known."""
    first, step, count = constant_of(op.lb), constant_of(op.step), trip_count(op)
    if first is None or step is None or count is None:
        return range(0)
    return range(first, first + step * count, step)


def _known(value: SSAValue, loops: Mapping[SSAValue, range]) -> bool:
    """True for what a block's number and the counters of loops tell."""
    if constant_of(value) is not None or value in loops:
        return True
    if isinstance(value.owner, kernel.IndexOp):
        return all(_known(v, loops) for e in value.owner.subscripts for v in e.values())
    return isinstance(value.owner, kernel.BlockIdOp)


def _counters_of(value: SSAValue) -> Iterator[SSAValue]:
    """The counters of loops that a value is made of."""
    if isinstance(value, BlockArgument):
        yield value
    elif isinstance(value.owner, kernel.IndexOp):
        for expr in value.owner.subscripts:
            for inner in expr.values():
                yield from _counters_of(inner)


def _reads_block(value: SSAValue) -> bool:
    if isinstance(value.owner, kernel.IndexOp):
        return any(_reads_block(v) for e in value.owner.subscripts for v in e.values())
    return isinstance(value.owner, kernel.BlockIdOp)


def _block_ids(func: kernel.FuncOp) -> Iterator[kernel.BlockIdOp]:
    return (op for op in func.walk() if isinstance(op, kernel.BlockIdOp))


def _tells_parts(op: kernel.BlockIdOp) -> bool:
    """True for a number that nothing needs but the tests which of the parts a block is of."""
    return all(isinstance(use.operation, kernel.TestOp) for use in op.result.uses)


def _numbers(
    ops: Iterable[kernel.BlockIdOp], block: int, alike: Mapping[int, int]
) -> dict[SSAValue, int]:
    """What a block's number is among all, the first of its part for all of one, and among parts."""
    return {
        op.result: alike.get(block, block)
        if op.part is None
        else block - op.before
        if block in op.part
        else 0
        for op in ops
    }
