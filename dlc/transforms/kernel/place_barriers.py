"""Threads wait for each other where the order of their accesses matters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.barriers import Uniformity, missing_barriers
from dlc.analysis.kernel.conflicts import Conflict
from dlc.analysis.kernel.proxies import crossing_barriers, releases_of_read_slots
from dlc.analysis.kernel.slots import Slots
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.kernel_op import kernels_in
from dlc.remarks import remark
from dlc.text import counted


@dataclass(frozen=True)
class PlaceBarriersPass(ModulePass):
    """
    The threads of a block leave lockstep: they wait for each other at barriers, and only there.

    *Legal when* a barrier stands on all paths between two accesses of a shared buffer by different
    threads, at least one a write: see `dlc.analysis.kernel.conflicts`. Each stands where all
    threads of the block come by, in the innermost loop around both accesses that allows it, and
    none can be left out. A kernel whose control flow leaves no such place is refused. Where
    products of warpgroups read what threads wrote, each thread fences before the barrier, and where
    boxes are written to what threads have read, before it frees the slot: see
    `dlc.analysis.kernel.proxies`.
    *Why*: a GPU runs the warps of a block in any order, and at a barrier all wait for the slowest.

    ```
    kernel.func @k(…) -> (…) … lockstep {
      kernel.store %v, %s[%t]
      %w = kernel.load %s[63 - %t]
    }
    ```
    becomes
    ```
    kernel.func @k(…) -> (…) … {
      kernel.store %v, %s[%t]
      kernel.barrier
      %w = kernel.load %s[63 - %t]
    }
    ```
    """

    name = "place-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in kernels_in(op, kernel.FuncOp):
            if func.lockstep is None:
                continue
            for left in tile.tile_ops(func):
                fail(left, f"expected Kernel IR, found '{left.name}'", "run lower-registers first")
            slots = Slots(func)
            count = place_barriers(func, slots)
            fences = place_fences(func, slots)
            func.lockstep = None
            done = [counted(count, "barrier")]
            if fences:
                done.append(f"{counted(fences, 'fence')} before the asynchronous proxy")
            remark(self.name, func.name_, ", ".join(done))


def place_barriers(func: kernel.FuncOp, slots: Slots) -> int:
    """
    Inserts `kernel.barrier`s until no accesses conflict, none of them redundant; returns how many.
    Each stands where all threads of the block come by, in the innermost loop around both accesses
    that allows it. `OpError` if control flow that depends on the thread leaves no such place.
    """
    uniform = Uniformity()
    placed: list[kernel.BarrierOp] = []
    missing = missing_barriers(func, slots)
    while missing:
        second = missing[0].second
        open_ = [c for c in missing if c.second.at is second.at]
        barrier, missing = _separate(func, open_, uniform, slots)
        placed.append(barrier)
    for barrier in placed[:-1]:  # without the last one, something conflicted
        if not missing_barriers(func, slots, frozenset((barrier,))):
            Rewriter.erase_op(barrier)
            placed.remove(barrier)
    return len(placed)


def place_fences(func: kernel.FuncOp, slots: Slots) -> int:
    """
    Inserts `kernel.fence_proxy_async` in front of the barriers between what threads write and
    products of warpgroups that read it, and of what frees slots that threads have read and boxes
    are written to; returns how many.
    """
    places = [*crossing_barriers(func, slots), *releases_of_read_slots(func)]
    for place in places:
        fence = kernel.FenceProxyAsyncOp()
        fence.location = place.location
        Rewriter.insert_op(fence, InsertPoint.before(place))
    return len(places)


def _separate(
    func: kernel.FuncOp, missing: list[Conflict], uniform: Uniformity, slots: Slots
) -> tuple[kernel.BarrierOp, list[Conflict]]:
    """
    Inserts a barrier before the common second access that resolves one conflict or more; the
    conflicts that are left are returned, too.
    """
    second = missing[0].second.at
    for place in _places(func, missing, uniform):
        barrier = kernel.BarrierOp()
        barrier.location = place.location
        Rewriter.insert_op(barrier, InsertPoint.before(_with_fence(place)))
        left = missing_barriers(func, slots)
        if not set(missing) <= set(left):
            return barrier, left
        Rewriter.erase_op(barrier)
    fail(
        second,
        f"no barrier can be placed where all threads of a block come by: {missing[0]}, and "
        "whether they run depends on the thread",
        "give the accesses a `where` condition instead of an scf.if or a loop",
    )


def _with_fence(place: Operation) -> Operation:
    """The fence in front of products, or what stands there: nothing comes between those."""
    before = place.prev_op
    return before if isinstance(before, kernel.WgmmaFenceOp) else place


def _places(
    func: kernel.FuncOp, missing: list[Conflict], uniform: Uniformity
) -> Iterator[Operation]:
    """
    Operations in front of which a barrier may resolve a conflict, best first: in the innermost
    region that holds both accesses, or else further out, never where only some threads come by.
    """
    second = missing[0].second.at
    around = list(_ancestors(second, func))
    usable: list[Operation] = []
    for op in reversed(around):
        usable.insert(0, op)
        if not uniform.control(op):
            break
    holders = [set(_ancestors(c.first.at, func)) for c in missing]

    def shared_levels(op: Operation) -> int:
        parent = op.parent_op()
        return max((parent in h) for h in holders)

    inner = [op for op in usable if op.parent_op() is func or shared_levels(op)]
    yield from inner
    yield from (op for op in reversed(usable) if op not in inner)


def _ancestors(op: Operation, func: kernel.FuncOp) -> Iterator[Operation]:
    """`op` and what it stands in, innermost first, without the kernel itself."""
    current: Operation | None = op
    while current is not None and current is not func:
        yield current
        current = current.parent_op()
