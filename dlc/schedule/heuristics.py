"""
The schedule of a kernel, decided once: from a Loop IR kernel and a target to a pipeline string.

This is the only place with heuristics (rule R5). Three shapes of kernels are told apart: a
contraction under free loops gets a tiled schedule, reduces along rows a cooperative one, and
everything else is dealt over threads point by point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.tile.row_lanes import rounds_along, rounds_of_share, row_lanes
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of
from dlc.ir.variance import variance
from dlc.schedule.apart_sums import with_long_sums_apart
from dlc.schedule.candidate import Candidate
from dlc.schedule.cascade_problem import TiledCascade, tiled_cascade
from dlc.schedule.cascade_ranking import cascade_candidates, ranked_cascades
from dlc.schedule.cascade_steps import cascade_steps
from dlc.schedule.cascade_tiles import CascadeCandidate
from dlc.schedule.contraction_tiles import Tiled, outer_loop, tiled_contraction
from dlc.schedule.endings import Ending
from dlc.schedule.estimate import Form, fastest_form
from dlc.schedule.likely_sizes import problems_around, steadiest
from dlc.schedule.long_sums import accumulators, long_sums
from dlc.schedule.one_launch import fastest_together
from dlc.schedule.part_folds import combining
from dlc.schedule.points import other_neighbours, pointwise, transposing
from dlc.schedule.problem import Problem
from dlc.schedule.rows import (
    HELD,
    RESERVED,
    RowPlan,
    reads_again,
    row_plan,
    row_sweeps,
    run_of,
    split_axis,
)
from dlc.schedule.sorted_rows import sort_plan
from dlc.schedule.table_sums import adding_plans
from dlc.schedule.tiling import alike, candidates, not_multiplied, ranked, rings, stages
from dlc.schedule.warpgroup_candidate import WarpgroupCandidate
from dlc.schedule.windows import WindowPlan, window_plan
from dlc.target import BLOCK_THREADS, STATIC_SHARED_LIMIT, Target

PANEL = 8
"""Columns of blocks in a panel: 8 of them and 16 rows make a wave of blocks about square."""
IN_RUNS = 8
"""Loads of a thread that are in flight at once where nothing else has them so."""
MOST_HELD = 64
"""Elements of a row that a thread of its own keeps in registers from one sweep to the next."""
FULL = 2
"""Blocks of an SM that walk runs, from which on a thread has neighbouring columns."""
MOST_UNROLLED = 8
"""Points of an axis of a window that are written out."""


@dataclass(frozen=True)
class Choice:
    """A schedule, why it was chosen, and what it was preferred to."""

    schedule: str
    reason: str
    lost: tuple[str, ...] = ()


def choose_schedule(kernel: loop.KernelOp, target: Target) -> Choice:
    """The default schedule of a kernel, with every option stated."""
    along_size, around = _along_size(kernel), problems_around(kernel)
    with fastest_form(kernel, target) as form:
        choice = _choose(form, target, along_size, [] if form.once else around)
    if form.once is None:
        return choice
    again, once = (f"{cost.seconds * 1e6:.1f} us" for cost in (form.cost, form.once))
    reason = f"{choice.reason}; what comes before is computed for each: {again} instead of {once}"
    return Choice(_repeating(choice.schedule), reason, choice.lost)


def choose_together(
    kernels: Sequence[loop.KernelOp], target: Target
) -> dict[loop.KernelOp, Choice]:
    """
    The schedules of those of some kernels that are products, if one launch of all of them, which
    nothing follows, is predicted to be faster than the default ones; else none.
    """
    products: dict[loop.KernelOp, Tiled] = {}
    for kernel in kernels:
        if (tiled := _product(kernel, target)) is not None:
            products[kernel] = tiled
    found = fastest_together([tiled.problem for tiled in products.values()], target)
    if found is None:
        return {}
    chosen: dict[loop.KernelOp, Choice] = {}
    for (kernel, tiled), tiling in zip(products.items(), found.tilings, strict=True):
        others = ", ".join(f"@{other.name_}" for other in products if other is not kernel)
        reason = f"{tiling}; in one launch with {others}, {found.told}"
        best = with_long_sums_apart(tiled, tiling)
        own = [str(other) for other in candidates(tiled.problem, target)[:1] if other != tiling]
        chosen[kernel] = Choice(_tiles(tiled, best, target, False), reason, tuple(own))
    return chosen


def seconds_together(kernels: Sequence[loop.KernelOp], target: Target) -> float | None:
    """The time of products in one launch, which nothing follows, as `choose_together` tiles them;
    None where it leaves them as they are."""
    products = [_product(kernel, target) for kernel in kernels]
    problems = [tiled.problem for tiled in products if tiled is not None]
    found = fastest_together(problems, target) if len(problems) == len(kernels) else None
    return None if found is None else found.seconds


def _product(kernel: loop.KernelOp, target: Target) -> Tiled | None:
    """A kernel as a product in tiles that nothing is computed again for, and that has no sizes."""
    if not all(isinstance(n, int) for ref in kernel.refs for n in shape_of(ref.type)):
        return None
    with fastest_form(kernel, target) as form:
        if form.once is not None or loop.has_ends_of_data(kernel):
            return None
        if tiled_cascade(kernel, form.apart):
            return None
        return tiled_contraction(kernel)


def _along_size(kernel: loop.KernelOp) -> bool:
    """
    True if a reduce is as long as a size: its split deals points in turns, as runs would begin at
    products, and loops that are written out are chunks of it.
    """
    reduces = (op for op in kernel.walk() if isinstance(op, loop.ReduceOp))
    return any(any(map(op.is_size, op.axes)) for op in reduces)


def _repeating(schedule: str) -> str:
    """A schedule of a kernel whose reduces are repeated, with the step that repeats them."""
    return "tileify{repeat=true}" + schedule.removeprefix("tileify")


def _ends_along(kernel: loop.KernelOp, axis: SSAValue) -> bool:
    """True if reduces end elsewhere for the next point of an axis: a thread takes one point."""
    along = variance(kernel)
    reduces = [op for op in kernel.walk() if isinstance(op, loop.ReduceOp)]
    where = [e for op in reduces for e in op.yielded.where]
    return any(axis in along[value] or value is axis for e in where for value in e.values())


def _choose(form: Form, target: Target, along_size: bool, around: Sequence[Problem]) -> Choice:
    kernel = form.kernel
    outer = outer_loop(kernel)
    ops = list(outer.body.block.ops) if outer else list(kernel.body.block.ops)
    reduces = row_sweeps(ops)
    inner = [op for op in ops if isinstance(op, AxesOp)]
    flat = not any(isinstance(o, AxesOp) for op in inner for o in op.body.walk())
    extents = [outer.hint(a) for a in outer.axes] if outer else []
    if outer and loop.has_ends_of_data(kernel):
        run = run_of(outer, outer.axes[-1:])
        filled = prod(extents) >= run * target.sms * BLOCK_THREADS * FULL
        schedule = pointwise(extents, not filled or _ends_along(kernel, outer.axes[-1]), run)
        return Choice(schedule, "runs whose ends memory tells: a thread walks its own")
    if plans := adding_plans(kernel, target):
        others = {plan.tables: plan for plan in reversed(plans)}
        lost = [p.reason for p in others.values() if p.tables != plans[0].tables]
        return Choice(plans[0].schedule, plans[0].reason, tuple(lost))
    cascade = tiled_cascade(kernel, form.apart)
    if cascade and (fitting := cascade_candidates(cascade.problem, target)):
        lost = tuple(str(other) for other in fitting[1:])
        return Choice(_cascade(cascade, fitting[0], along_size), str(fitting[0]), lost)
    if tiled := tiled_contraction(kernel):
        return _contraction(tiled, target, along_size, around)
    if plan := window_plan(kernel, target):
        apart = accumulators([_lengths(op) for op in long_sums(kernel)])
        reason = "windows that overlap: a block fetches them once"
        if not plan.slab_bytes:
            reason = "windows: threads read them, neighbours from the same lines"
        return Choice(_windows(outer, plan, apart), reason)
    if flat and reduces:
        rows = form.cost.rows
        schedule = _cooperative(outer, reduces, long_sums(kernel), target, along_size, rows)
        scans = any(isinstance(op, loop.ForOp) for op in reduces)
        sorts = sort_plan(outer, reduces, target) is not None
        what = "a sort" if sorts else "a scan" if scans else "a reduce"
        held = "rows share a block"
        if rows is not None:
            held = f"{rows.blocks} blocks of a cluster hold it between them"
        return Choice(schedule, f"{what} along rows: threads share a row, {held}")
    if outer:
        apart = accumulators([_lengths(op) for op in long_sums(kernel)])
        run = run_of(outer, outer.axes[-1:])
        if not inner and (across := other_neighbours(outer)):
            schedule = transposing(outer, across, run)
            return Choice(schedule, "what is read and written has its neighbours along other axes")
        schedule = pointwise(extents, bool(inner), run, apart)
        return Choice(schedule, "independent points: runs of neighbours, dealt over threads")
    return Choice("tileify", "a single point")


def ranked_schedules(kernel: loop.KernelOp, target: Target, most: int) -> list[str]:
    """
    The schedules of so many of the fastest tilings by the estimate, the default one first; none of
    a kernel that is not tiled by it.
    """
    along_size = _along_size(kernel)
    with fastest_form(kernel, target) as form:
        found = _ranked(form, target, most, along_size)
    return found if form.once is None else list(map(_repeating, found))


def _ranked(form: Form, target: Target, most: int, along_size: bool) -> list[str]:
    kernel = form.kernel
    if loop.has_ends_of_data(kernel):
        return []
    cascade = tiled_cascade(kernel, form.apart)
    if cascade and (tilings := ranked_cascades(cascade.problem, target)):
        return [_cascade(cascade, tiling, along_size) for tiling in tilings[:most]]
    if tiled := tiled_contraction(kernel):
        found = ranked(tiled.problem, target, most)
        found = [with_long_sums_apart(tiled, best) for best in found]
        return [_tiles(tiled, best, target, along_size) for best in found]
    return []


def _cascade(cascade: TiledCascade, best: CascadeCandidate, along_size: bool) -> str:
    """The schedule of attention in tiles."""
    extents = [cascade.outer.hint(a) for a in cascade.outer.axes]
    turns = along_size or cascade.problem.ends_early
    split = _split(
        best.splits,
        extents,
        best.target,
        ending=best.ending,
        turns=turns,
        results=cascade.problem.results,
    )
    return cascade_steps(cascade, best, split)


def _contraction(
    tiled: Tiled, target: Target, along_size: bool, around: Sequence[Problem]
) -> Choice:
    """
    Tiles the longest row and the longest column axis with the fastest of all candidates, or that of
    those about as fast that is the fastest at other sizes, too.
    """
    fitting = candidates(tiled.problem, target)
    if not fitting:
        extents = [tiled.outer.hint(a) for a in tiled.outer.axes]
        return Choice(pointwise(extents, True), "a contraction of which no tile fits on an SM")
    best = steadiest(alike(tiled.problem, target), around) if around else fitting[0]
    lost = [str(other) for other in fitting if other != best]
    best = with_long_sums_apart(tiled, best)
    if best.rings and target.has("tma") and not isinstance(best, WarpgroupCandidate):
        lost.append(_without_tma(best))
    if refused := not_multiplied(tiled.problem, target):
        lost.append(refused)
    return Choice(_tiles(tiled, best, target, along_size), str(best), tuple(lost))


def _tiles(tiled: Tiled, best: Candidate, target: Target, along_size: bool) -> str:
    """The schedule of a contraction whose longest row and column axes a candidate tiles."""
    outer, problem = tiled.outer, tiled.problem
    row, column = tiled.row, tiled.column
    extents = [outer.hint(a) for a in outer.axes]

    block: dict[SSAValue, int] = {}
    points: dict[SSAValue, int] = {}
    dealt: dict[SSAValue, int] = {}
    of_axes = ((row, tiled.beside[0]), (column, tiled.beside[1]))
    for axes, sizes, held in zip(of_axes, best.spread, best.points_held, strict=True):
        for axis, size, n in zip(axes, sizes, held, strict=True):
            if axis is not None and (size > 1 or axis in (row, column)):
                block[axis], points[axis], dealt[axis] = size, n, size // n
    if tiled.between is not None and best.gaps > 1:
        block[tiled.between] = dealt[tiled.between] = best.gaps
    tiled_axes = outer.axes[min(axis.index for axis in outer.axes if axis in block) :]

    def per_axis(sizes: dict[SSAValue, int], axes: Sequence[BlockArgument] = tiled_axes) -> str:
        return ",".join(str(sizes.get(a, 1)) for a in axes)

    computed = " compute=true" if best.computes else ""
    computed += f" type={best.computed_type}" if best.computed_type else ""
    slabs, chunk = best.computed_bytes, best.points if tiled.is_chunked else None
    chunk = best.chunk if along_size else chunk  # however short the likely one is
    for op in tiled.chunked:
        slabs += tiled.slab_points(op, block, chunk) * element_bytes(op.result.type)
    beside = best.shared_held - best.slab_bytes - best.computed_bytes  # slots and parts
    slabs = min(slabs, target.shared_per_block - beside)
    steps = ["tileify"]
    if chunk is not None:
        steps.append(f"chunk-matmul-k{{bk={best.chunk} vector={best.vector}}}")
    if best.splits > 1:
        steps.append(_split(best.splits, extents, target, ending=best.ending, turns=along_size))
    group = f" group={PANEL}" if _panels(problem, best) else ""
    # An axis of which a thread has one point is no serial axis.
    registers = per_axis(points, [a for a in tiled_axes if points.get(a, 1) > 1]) or "1"
    steps += [
        f"blockify-launch{{block={per_axis(block)} thread={per_axis(dealt)}{group}}}",
        f"stage-inputs{{budget={slabs}{computed}}}",
        f"register-tile{{extents={registers}{_multiplied(best)}}}",
        *([] if best.mma else ["permute-register-tile"]),
    ]
    if isinstance(best, WarpgroupCandidate):
        steps += best.ring_steps
    else:
        steps += rings(best.depth, target) if best.rings else stages(target)
        steps.append("pad-smem")
    if best.rings:
        steps.append(best.pipeline)
    steps.append(f"mark-unroll{{limit={max(best.chunk // best.vector, 1)}}}")
    return ",".join(steps)


def _multiplied(best: Candidate) -> str:
    """The options by which warps multiply, if they do."""
    options = ("mma", best.mma), ("precision", best.precision), ("apart", best.apart and "true")
    return "".join(f" {k}={v}" for k, v in options if v)


def _without_tma(best: Candidate) -> str:
    """
    The reason why threads copy, not the tensor memory accelerator: all it saves is the instructions
    of the copies, too few for the estimate to tell, and its rows cannot be padded against bank
    conflicts.
    """
    return (
        f"tma-copy: it saves {best.copy_share:.1%} of the instructions of a chunk, at most, and "
        "takes no padding"
    )


def _panels(problem: Problem, best: Candidate) -> bool:
    """True if neighbouring blocks profit from a panel: not if the operands stay in the L2 anyway,
    nor where a panel would be ragged."""
    rows, columns = ceil(problem.rows / best.block[0]), ceil(problem.columns / best.block[1])
    large = problem.compulsory_bytes > best.target.l2_bytes // 2
    return large and rows > 1 and columns > PANEL and columns % PANEL == 0


def _windows(outer: loop.ForOp | None, plan: WindowPlan, apart: list[str]) -> str:
    """A block of neighbours that share what their windows read."""
    assert outer is not None
    axes = outer.axes[min(axis.index for axis in plan.block) :]

    def per_axis(sizes: Mapping[BlockArgument, int]) -> str:
        return ",".join(str(sizes.get(a, 1)) for a in axes)

    held = [plan.block[a] // plan.threads[a] for a in axes if a in plan.block]
    serial = [str(n) for n in held if n > 1]
    register = [f"register-tile{{extents={','.join(serial)}}}"] if serial else []
    dealt = f"blockify-launch{{block={per_axis(plan.block)} thread={per_axis(plan.threads)}}}"
    if not plan.slab_bytes:
        return ",".join(["tileify", dealt, *(register or apart)])
    staged = [f"stage-inputs{{budget={plan.slab_bytes}}}", *register, "pad-smem"]
    return ",".join(["tileify", dealt, *staged, f"mark-unroll{{limit={MOST_UNROLLED}}}"])


def _cooperative(
    outer: loop.ForOp | None,
    reduces: list[loop.ReduceOp | loop.ForOp],
    sums: list[loop.ReduceOp],
    target: Target,
    along_size: bool,
    plan: RowPlan | None,
) -> str:
    """
    Threads share rows as a plan says, or `row_plan` has it; without one, points are dealt over
    threads.
    """
    sorts = any(isinstance(op, loop.ForOp) and loop.sorts_in(op) for op in reduces)
    plan = plan or (sort_plan if sorts else row_plan)(outer, reduces, target)
    extents = [outer.hint(a) for a in outer.axes] if outer else []
    every = [_lengths(op) for op in reduces]
    lengths = [_lengths(op) for op in sums]
    if plan is None:
        longest = max(map(prod, every))
        held = outer is not None and reads_again(outer) and 0 < longest <= MOST_HELD
        unroll = [f"mark-unroll{{limit={longest}}}"] if held else []
        return pointwise(extents, True, apart=[*accumulators(lengths), *unroll])
    steps = ["tileify"]
    if plan.parts > 1:
        steps.append(_split(plan.parts, extents, target, ending=plan.ending, turns=along_size))
        every, lengths = (
            [_split_lengths(one, plan.parts) for one in of_reduces]
            for of_reduces in (every, lengths)
        )
    threads, rows, vector = plan.threads, plan.rows, plan.vector
    order = " order=rows" if plan.across else ""
    order += f" blocks={plan.blocks}" if plan.blocks > 1 else ""
    steps.append(f"cooperative-reduce{{threads={threads} rows={rows} vector={vector}{order}}}")
    if all(isinstance(op, loop.ForOp) for op in reduces):
        return ",".join(steps)
    trips = max(prod(_dealt(one, plan)) for one in every)
    once = len(reduces) == 1 and not (outer and reads_again(outer))
    in_registers = plan.ahead or trips * vector <= HELD or (once and trips <= IN_RUNS)
    if not plan.across and not plan.kept_bytes and in_registers:
        if along_size and trips > 1:
            steps.append(f"chunk-reduce{{bk={trips}}}")
        return ",".join([*steps, f"mark-unroll{{limit={trips}}}"] if trips > 1 else steps)
    loads = [op for r in reduces for op in r.body.walk() if isinstance(op, loop.LoadOp)]
    size = max((element_bytes(op.result.type) for op in loads), default=4)
    slab = trips * threads * vector * rows * size
    budgets = STATIC_SHARED_LIMIT, target.shared_per_block // 2
    budgets += (target.shared_per_block - RESERVED,) if plan.across else ()
    budget = plan.kept_bytes or next((n for n in budgets if slab <= n), budgets[1])
    apart = accumulators([_dealt(of_sum, plan) for of_sum in lengths], vector)
    if plan.across and once and not lengths and trips > IN_RUNS:
        return ",".join([*steps, f"chunk-reduce{{bk={IN_RUNS}}},mark-unroll{{limit={IN_RUNS}}}"])
    steps += apart
    steps += [f"stage-inputs{{budget={budget}}}", *(stages(target) if plan.kept_bytes else [])]
    steps.append("pad-smem")
    return ",".join(steps)


def _dealt(lengths: Sequence[int], plan: RowPlan) -> list[int]:
    """The lengths of the loops in which a thread walks its part of a reduce."""
    lanes = row_lanes(lengths, plan.threads, plan.vector)
    return rounds_of_share(rounds_along(lengths, lanes, plan.vector), plan.blocks)


def _lengths(reduce: loop.ReduceOp | loop.ForOp) -> list[int]:
    """The lengths of the axes of a reduce."""
    return [reduce.hint(a) for a in reduce.axes]


def _split_lengths(lengths: Sequence[int], splits: int) -> list[int]:
    """The lengths of the axes of a part of a reduce."""
    at = split_axis(lengths, splits)
    return [ceil(n / splits) if i == at else n for i, n in enumerate(lengths)]


def _split(
    splits: int,
    extents: list[int],
    target: Target,
    *,
    ending: Ending,
    turns: bool,
    results: int = 1,
) -> str:
    """
    A split, of runs or in turns, that its blocks end, or a combining kernel with its default
    schedule.
    """
    deal = " deal=turns" if turns else ""
    if ending != "workspace":
        return f"split-matmul-k{{splits={splits} combine={ending}{deal}}}"
    then = combining(splits, extents, target, results)
    return f'split-matmul-k{{splits={splits}{deal} then="{then}"}}'
