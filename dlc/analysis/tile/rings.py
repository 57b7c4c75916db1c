"""
Facts of the rings of a launch: the loop that works through one, which requests belong
together, and which groups of asynchronous copies an acquire has to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.axes import SERIAL, AxesOp
from dlc.dialects.ring_ops import ASYNC
from dlc.ir.analyses import Analyses
from dlc.ir.bounds import sure
from dlc.ir.expr import Expr
from dlc.ir.sizes import NeedsNumber, Size

Request: TypeAlias = tile.FillOp | tile.AcquireOp


def rings_by_loop(root: Operation) -> dict[tile.ReduceOp | None, list[tile.RingOp]]:
    """The rings in `root` under the reduce that works through them, None for any other ring."""
    found: dict[tile.ReduceOp | None, list[tile.RingOp]] = {}
    for op in root.walk():
        if isinstance(op, tile.RingOp):
            found.setdefault(loop_of(op), []).append(op)
    return found


def has_producer(root: Operation) -> bool:
    """True if a warpgroup of its own requests what rings in `root` hold."""
    return any(isinstance(op, tile.RingOp) and op.has_producer for op in root.walk())


def loop_of(ring: tile.RingOp) -> tile.ReduceOp | None:
    """
    The reduce with one serial axis in each of whose iterations a ring's chunk of the same number is
    acquired, and that chunk or one before it released; None if there is no such reduce.
    """
    users = [use.operation for use in ring.result.uses]
    users = [op for op in users if isinstance(op, tile.AcquireOp | tile.ReleaseOp)]
    loops = {op.parent_op() for op in users}
    loop = loops.pop() if len(loops) == 1 else None
    if not isinstance(loop, tile.ReduceOp) or len(loop.axes_of(SERIAL)) != 1:
        return None
    (axis,) = loop.axes_of(SERIAL)
    back = [Expr.of(axis) - op.chunk for op in users]
    own = all(
        n.is_constant and (n.constant == 0 or (isinstance(op, tile.ReleaseOp) and n.constant > 0))
        for op, n in zip(users, back, strict=True)
    )
    return loop if own and sure(ring.size - loop.count(axis)) else None


def is_async(op: Operation | None) -> bool:
    """True if an operation fills or acquires a chunk that cp.async copies."""
    return isinstance(op, tile.FillOp | tile.AcquireOp) and op.source.fill_kind == ASYNC


def runs_in(root: Operation) -> dict[Request, list[Request]]:
    """
    For every fill and acquire in `root`, the neighbouring operations of the same name, on the same
    chunk of the rings of one loop that are filled in the same way, that it belongs to. A run of
    asynchronous fills is one group of copies, of which a run of acquires waits once; so does one of
    requests to the tensor memory accelerator.
    """
    found: dict[Request, list[Request]] = {}
    kinds: dict[Request, Hashable] = {}
    analyses = Analyses()
    for op in root.walk():
        if not isinstance(op, tile.FillOp | tile.AcquireOp):
            continue
        ring, before = op.source, op.prev_op
        kinds[op] = type(op), ring.fill_kind, op.chunk, analyses.get(loop_of, ring)
        if isinstance(before, tile.FillOp | tile.AcquireOp) and kinds[before] == kinds[op]:
            found[op] = found[before]
        else:
            found[op] = []
        found[op].append(op)
    return found


def is_idle(op: tile.FillOp) -> bool:
    """True if the chunk of a fill is beyond the last one, whenever it is executed."""
    return sure(op.chunk - op.source.size)


def makes_group(op: tile.FillOp) -> bool:
    """
    True if an asynchronous fill closes a group of copies, though it may be empty. Where a ring has
    one chunk, only its request does.
    """
    return op.source.most_chunks > 1 or not is_idle(op)


def closes_group(run: Sequence[Request], pending: Iterable[int]) -> bool:
    """
    True if a run of asynchronous fills needs a commit of its own: not where all waits are for
    everything, `pending` being what they leave, and other fills follow before any of them.
    """
    op = run[0]
    assert isinstance(op, tile.FillOp)
    if not makes_group(op) or any(pending):
        return makes_group(op)
    later = run[-1].next_op
    while later is not None and not later.regions and not isinstance(later, tile.AcquireOp):
        if isinstance(later, tile.FillOp) and is_async(later) and makes_group(later):
            return False
        later = later.next_op
    return True


def pending_groups(
    root: tile.LaunchOp | kernel.FuncOp, runs: Mapping[Request, Sequence[Request]]
) -> dict[tile.AcquireOp, int]:
    """
    For the first acquire of every run: how many of the newest groups may be unfinished when it
    goes on. Found by playing through its fills and acquires, every loop up to where
    its slots have been through all their states; the least count over all visits holds, none of a
    run in a loop that is never executed. `OpError` for a chunk that is acquired before it is
    filled.
    """
    pending: dict[tile.AcquireOp, int] = {}
    group_of: dict[tuple[tile.RingOp, Expr], int] = {}
    groups = 0

    def visit(op: Operation, at: dict[SSAValue, int]) -> None:
        nonlocal groups
        assert isinstance(op, tile.FillOp | tile.AcquireOp)
        run = runs[op]
        if op is not run[0] or (isinstance(op, tile.FillOp) and not makes_group(op)):
            return
        chunks = [(member.source, member.chunk.substitute(at.get)) for member in run]
        if isinstance(op, tile.FillOp):
            group_of.update(dict.fromkeys(chunks, groups))
            groups += 1
        else:
            for member, chunk in zip(run, chunks, strict=True):
                if chunk not in group_of:
                    fail(member, "expected a chunk that is filled before it is acquired")
            newest = max(group_of[chunk] for chunk in chunks)
            pending[op] = min(pending.get(op, groups), groups - 1 - newest)

    _check_counts(root)
    _play(root.body.block.ops, {}, visit)
    waiting = (run[0] for run in runs.values())
    never = (op for op in waiting if isinstance(op, tile.AcquireOp) and op not in pending)
    return dict.fromkeys(filter(is_async, never), 0) | pending


def _check_counts(root: tile.LaunchOp | kernel.FuncOp) -> None:
    """
    NeedsNumber where an asynchronous ring is worked through beside a loop that ends at a size: how
    many groups come between is not known then. One loop has the same first groups however often it
    runs.
    """
    loops = [op for op in root.walk() if isinstance(op, AxesOp) and op is not root and _rings(op)]
    serial = [op.axes_of(SERIAL) for op in loops if op.axes_of(SERIAL)]
    extents = [Size.of(op.extent(a)) for op in loops for a in op.axes_of(SERIAL)]
    sizes = [extent for extent in extents if extent.number is None]
    if sizes and len(serial) > 1:
        raise NeedsNumber(sizes[0])


def _play(
    ops: Iterable[Operation],
    at: dict[SSAValue, int],
    visit: Callable[[Operation, dict[SSAValue, int]], None],
) -> None:
    """Visits what fills and acquires asynchronous rings, in the order of execution."""
    for op in ops:
        if is_async(op):
            visit(op, at)
        elif isinstance(op, AxesOp) and (rings := _rings(op)):
            axes = op.axes_of(SERIAL)
            enough = 2 * max(ring.depth for ring in rings) + 2
            points = [range(int(min(op.most(a), enough))) for a in axes]
            for point in product(*points):
                _play(op.body.block.ops, {**at, **dict(zip(axes, point, strict=True))}, visit)


def _rings(op: Operation) -> set[tile.RingOp]:
    """The asynchronous rings of which something in `op` fills or acquires a chunk."""
    users = (o for o in op.walk() if isinstance(o, tile.FillOp | tile.AcquireOp))
    return {user.source for user in users if is_async(user)}
