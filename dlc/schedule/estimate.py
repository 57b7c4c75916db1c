"""
The estimate of a loop kernel's time on a target, by which fusion decides.

A kernel takes the launch overhead and then the longest of: its arithmetic at the chip's rate, with
its loads at the L1 caches', its bytes at the memory's rate, its loads at the L2 cache's rate (a
roofline; Williams et al., "Roofline: an insightful visual performance model", CACM 2009), and the
iterations that a thread does one after the other, those of scans and sorts with what their threads
exchange. A contraction that the schedule will tile takes what its best tiling does
(`dlc.schedule.tiling`), so that fusion and schedule go by one estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import hypot

from xdsl.ir import Operation

from dlc.analysis.loop.cost import work_of
from dlc.dialects.loop import KernelOp, LoadOp, ReduceOp, has_ends_of_data
from dlc.dialects.size_binding import at_hints
from dlc.schedule.cascade_problem import read_along_sizes, tiled_cascade
from dlc.schedule.cascade_ranking import cascade_candidates
from dlc.schedule.cluster_rows import along_sizes, cluster_rows
from dlc.schedule.contraction_tiles import tiled_contraction
from dlc.schedule.endings import ending_seconds
from dlc.schedule.repeats import repeated
from dlc.schedule.rows import RowPlan, issued_slots, reduced_rows, scan_seconds, split_rows
from dlc.schedule.sorted_rows import sort_seconds
from dlc.schedule.table_sums import adding_seconds
from dlc.schedule.tiling import best_candidate
from dlc.schedule.windows import window_plan
from dlc.target import MAX_CLUSTER, Target

CLEARLY = 1.25
"""The ratio of two times from which on one is clearly less, whatever kernels merge later."""
LOADED = 8
"""Operations of multiply-adds in the time in which an SM's L1 cache gives what a load asks for."""
AT_ONCE = 4
"""The iterations of a loop whose end is data that nvcc has loads of in flight at once."""
STEP_CLOCKS = 16
"""The least clocks of an iteration that waits for the one before, its loads pipelined."""


@dataclass(frozen=True)
class Cost:
    """An estimate; `explain` says what it consists of."""

    flops: float
    """All, those of tensor cores included."""
    memory_bytes: float
    l2_bytes: float
    share: float
    """The share of the chip's SMs that the kernel can use."""
    seconds: float
    combine_seconds: float = 0
    """The part of these that a second kernel takes, which combines a split reduce."""
    busy_seconds: float = 0
    """The part of these in which the chip's memory, caches or units have something to do, for which
    what runs beside it waits."""
    rows: RowPlan | None = None
    """How the blocks of clusters hold rows, if they do."""

    @property
    def explain(self) -> str:
        text = (
            f"{self.seconds * 1e6:.1f} us: {self.flops / 1e6:.1f} MFLOP, "
            f"{self.memory_bytes / 1e6:.2f} MB from memory, {self.l2_bytes / 1e6:.2f} MB from L2"
        )
        return text if self.share == 1 else f"{text}, on {self.share:.1%} of the SMs"


def estimate(kernel: KernelOp, target: Target) -> Cost:
    """The cost of one launch of a kernel."""
    with fastest_form(kernel, target) as form:
        return form.cost


def beside_seconds(costs: Sequence[Cost], target: Target) -> float:
    """
    One launch of kernels whose blocks run side by side: each waits by itself for what it asks for,
    and all of them for the chip.
    """
    waiting = max(cost.seconds - target.launch_seconds - cost.busy_seconds for cost in costs)
    return target.launch_seconds + waiting + sum(cost.busy_seconds for cost in costs)


@dataclass(frozen=True)
class Form:
    """A kernel as its schedule tiles it, and its cost."""

    kernel: KernelOp
    cost: Cost
    once: Cost | None = None
    """The cost without reduces that are repeated at each point of the loop behind, if they are."""
    apart: frozenset[str] = frozenset()
    """The inputs of attention that slabs cannot have."""


@contextmanager
def fastest_form(kernel: KernelOp, target: Target) -> Iterator[Form]:
    """
    A kernel, or for as long as the context lasts a copy of it whose reduces are repeated, if that
    is faster: each reduce more of a row waits for memory. What has sizes is estimated at those that
    are likely.
    """
    with at_hints(kernel) as bound:
        apart = frozenset[str]() if bound is kernel else read_along_sizes(kernel)
        yield from _fastest(bound, target, apart, _cost(bound, target, apart, along_sizes(kernel)))


def _cost(kernel: KernelOp, target: Target, apart: frozenset[str], sized: bool) -> Cost:
    """
    The cost by blocks, or by clusters that hold rows where that is faster: rows that are `sized`
    have no fixed shares.
    """
    cost = _estimate(kernel, target, apart)
    plans = [] if sized or has_ends_of_data(kernel) else list(cluster_rows(kernel, target))
    tiled = tiled_contraction(kernel) or tiled_cascade(kernel, apart)
    if not plans or tiled or window_plan(kernel, target):
        return cost
    work = work_of(kernel, target, held_bytes=MAX_CLUSTER * target.shared_per_block)
    flops = work.flops + work.loads * LOADED
    best = min(plans, key=lambda plan: plan.seconds(work, flops))
    seconds = target.launch_seconds + best.seconds(work, flops)[0]
    if seconds >= cost.seconds:
        return cost
    busy = work.memory_bytes / target.memory_rate
    share = best.used / target.sms
    return Cost(work.flops, work.memory_bytes, work.l2_bytes, share, seconds, 0, busy, best.plan)


def _fastest(kernel: KernelOp, target: Target, apart: frozenset[str], cost: Cost) -> Iterator[Form]:
    if has_ends_of_data(kernel):
        yield Form(kernel, cost, apart=apart)
        return
    with repeated(kernel) as (copy, count):
        again = _estimate(copy, target, apart) if count else cost
        beside = _repeating_seconds(copy, again, count, target) if count else 0
        again = replace(again, seconds=again.seconds + beside)
        if again.seconds < cost.seconds:
            yield Form(copy, again, cost, apart)
            return
    yield Form(kernel, cost, apart=apart)


def _step_seconds(kernel: KernelOp, target: Target) -> float:
    """An iteration that waits for the one before, or a few that wait for their loads together."""
    waits = max(
        (_waits(op, op) for op in kernel.walk() if isinstance(op, ReduceOp) and op.about),
        default=0,
    )
    return max(STEP_CLOCKS / target.clock, waits * target.latency_seconds / AT_ONCE)


def _waits(op: Operation, reduce: ReduceOp) -> int:
    """How many loads follow each other in an iteration of a reduce, the last for an operation."""
    values = op.yielded.values if isinstance(op, ReduceOp) else op.operands
    owners = [v.owner for v in values if isinstance(v.owner, Operation)]
    inside = [o for o in owners if o is not reduce and reduce.is_ancestor(o)]
    before = max((_waits(o, reduce) for o in inside), default=0)
    return before + isinstance(op, LoadOp)


def _repeating_seconds(copy: KernelOp, again: Cost, count: int, target: Target) -> float:
    """
    What a kernel takes more whose reduces are repeated at each point. Each is waited for, but by
    warps that ask for the rest ahead. What a thread issues then is no longer little beside what
    memory takes: both come at times of their own, and together take the root of their squares. On
    an H200 10.7 us of memory took 14.4 with 8.8 us of instructions, 12.8 with 6.9 and 11.0 with
    3.8.
    """
    plan = None if tiled_contraction(copy) else reduced_rows(copy, target)
    waited = 0 if plan and plan.ahead else count * target.latency_seconds
    if plan is None:
        return waited
    issue = issued_slots(copy, plan, again.flops, target) / target.issue_rate
    return waited + hypot(again.busy_seconds, issue) - again.busy_seconds


def _estimate(kernel: KernelOp, target: Target, apart: frozenset[str]) -> Cost:
    walked = has_ends_of_data(kernel)
    cascade = None if walked else tiled_cascade(kernel, apart)
    if cascade and (ranked := cascade_candidates(cascade.problem, target)):
        memory_bytes, best = work_of(kernel, target).memory_bytes, ranked[0]
        fetching = target.start_seconds + memory_bytes / target.memory_rate
        longest = max(best.seconds, fetching + best.ending_seconds)
        seconds, combine = target.launch_seconds + longest, best.combine_seconds
        busy = max(best.seconds - best.ending_seconds, memory_bytes / target.memory_rate)
        return Cost(best.flops, memory_bytes, best.l2_bytes, 1.0, seconds, combine, busy)
    tiled = tiled_contraction(kernel)
    tiling = best_candidate(tiled.problem, target) if tiled else None
    work = work_of(kernel, target, tiled.found if tiled and tiling else None)
    share = min(1.0, max(work.units, 1) / target.sms)
    l2_bytes, issue, flops = work.l2_bytes, 0.0, work.flops
    fetching = ending = combine = 0.0
    if tiling is not None:
        flops -= tiling.tensor_flops
        fetching = tiling.l2_seconds
        issue, combine = tiling.issue_seconds, tiling.combine_seconds
        ending = tiling.stored_seconds + tiling.ending_seconds
    steps, first = work.steps, target.start_seconds if work.alone else 0.0
    windows = None if tiled or walked else window_plan(kernel, target)
    if windows is not None:
        l2_bytes = min(l2_bytes, windows.fetched_bytes + windows.stored_bytes)
        issue, steps, first = windows.issue_seconds, 0, 0.0
    bandwidth = min(target.memory_rate, share * target.sms * target.sm_bandwidth)
    rows = None if tiled or windows or walked else split_rows(kernel, target)
    if rows is not None:
        ending = ending_seconds(rows.left, target, rows.ending)
        combine = ending if rows.ending == "workspace" else 0
    reduces = any(isinstance(op, ReduceOp) for op in kernel.walk())
    drawn = max(
        work.memory_bytes / bandwidth, l2_bytes / (target.l2_bandwidth * share) + fetching / share
    )
    l2_bytes += tiling.l2_bytes if tiling is not None else 0
    if tiling is None and windows is None:
        flops += work.loads * LOADED
    computing = max(issue, flops / (target.flops * share))
    longest = max(
        computing,
        (2 if reduces else 1) * target.start_seconds,  # what is combined waits for what is loaded
        target.start_seconds + drawn,
        first + steps / (rows.parts if rows else 1) * _step_seconds(kernel, target),
        scan_seconds(kernel, target),
        sort_seconds(kernel, target),
        target.start_seconds + adding_seconds(kernel, target),
    )
    zeros = target.launch_seconds if kernel.zeroed_refs else 0
    seconds = target.launch_seconds + longest + ending + zeros
    busy = max(computing, drawn)
    return Cost(work.flops, work.memory_bytes, l2_bytes, share, seconds, combine, busy)
