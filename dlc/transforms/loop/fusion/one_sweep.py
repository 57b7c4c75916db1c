"""What it takes to make one reduce of two that follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from dlc.analysis.loop.loops import only_computes
from dlc.dialects.loop import KernelOp, ReduceOp, YieldOp
from dlc.transforms.loop.fusion.hoisting import used_values


def dependent_reduces(
    kernel: KernelOp,
    begins: Callable[[ReduceOp], bool],
    follows: Callable[[ReduceOp], bool],
) -> Iterator[tuple[ReduceOp, ReduceOp, set[SSAValue]]]:
    """
    The pairs of a reduce and one behind it in its block, at the same points, that needs it; and
    what is computed of the results of the first one up to there.
    """
    for first in kernel.walk():
        if not isinstance(first, ReduceOp) or not begins(first):
            continue
        second = first.next_op
        while second is not None:
            if isinstance(second, ReduceOp) and follows(second):
                if second.extents == first.extents:
                    each = [needing_of(result, first, second) for result in first.results]
                    needing = set[SSAValue]().union(*each)
                    if not needing.isdisjoint(used_values(second)):
                        yield first, second, needing
            second = second.next_op


def needing_of(value: SSAValue, first: Operation, last: Operation) -> set[SSAValue]:
    """What is computed of a value between two operations of a block, and in the last one."""
    needing, op = {value}, first.next_op
    while op is not None:
        for inner in op.walk() if op is last else (op,):
            if not needing.isdisjoint(used_values(inner)):
                needing.update(inner.results)
        op = None if op is last else op.next_op
    return needing


def needed(
    total: ReduceOp,
    largest: ReduceOp,
    dependent: AbstractSet[SSAValue],
    outputs: AbstractSet[SSAValue],
) -> tuple[Operation, ...] | None:
    """
    What stands between the two and the sum needs, without the largest; None if that cannot stand
    before both.
    """
    wanted, found = set(used_values(total)) - dependent, list[Operation]()
    op = total.prev_op
    while op is not None and op is not largest:
        if not wanted.isdisjoint(op.results):
            if not only_computes(op) or not outputs.isdisjoint(used_values(op)):
                return None
            found.append(op)
            wanted.update(used_values(op))
        op = op.prev_op
    return tuple(reversed(found))


def one_body(first: ReduceOp, second: ReduceOp, before: Sequence[Operation]) -> list[SSAValue]:
    """Moves the body of the second of two reduces into the first; returns what both yielded."""
    for op in before:
        op.detach()
        Rewriter.insert_op(op, InsertPoint.before(first))
    for old, new in zip(second.axes, first.axes, strict=True):
        old.replace_all_uses_with(new)
    values = [*first.yielded.values, *second.yielded.values]
    for op in (first.yielded, second.yielded):
        Rewriter.erase_op(op)
    for op in list(second.body.block.ops):
        op.detach()
        first.body.block.add_op(op)
    return values


def folded(
    monoid: str, first: ReduceOp, values: Sequence[SSAValue], results: Sequence[SSAValue]
) -> ReduceOp:
    """A reduce of a monoid, of what the body of one is now and of what it yields."""
    block = first.body.block
    block.add_op(YieldOp(values))
    for op in reversed(list(block.ops)):
        if is_trivially_dead(op):
            Rewriter.erase_op(op)
    types, extents = [r.type for r in results], first.all_extents
    joined = ReduceOp(monoid, extents, types, first.detach_region(first.body))
    joined.location = first.location
    for old, new in zip(results, joined.results, strict=True):
        new.name_hint = old.name_hint
    return joined
