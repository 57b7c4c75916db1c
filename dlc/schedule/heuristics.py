"""
The schedule of a kernel, decided once: from a Loop IR kernel and a target to a pipeline string.

This is the only place with heuristics (rule R5). Three shapes of kernels are told apart: a
contraction under free loops gets a tiled schedule, reduces along rows a cooperative one, and
everything else is dealt over threads point by point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument

from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes
from dlc.dialects.layouts import shape_of, strides_of
from dlc.schedule.contraction_tiles import Tiled, outer_loop, tiled_contraction
from dlc.schedule.long_sums import accumulators, long_sums
from dlc.schedule.tiling import VECTOR, Candidate, Problem, candidates
from dlc.target import BLOCK_THREADS, MAX_THREADS, STATIC_SHARED_LIMIT, WARP, WIDEST_ACCESS, Target

PANEL = 8
"""Columns of blocks in a panel: 8 of them and 16 rows make a wave of blocks about square."""
SPLIT_POINTS = 4096
"""Points of a reduce that are worth a block of their own."""
IN_FLIGHT = 32
"""Partial sums of a point that are loaded at once."""
RUN = 4
"""Elements of fp32 in the widest access."""


@dataclass(frozen=True)
class Choice:
    """A schedule, why it was chosen, and what it was preferred to."""

    schedule: str
    reason: str
    lost: tuple[str, ...] = ()


def choose_schedule(kernel: loop.KernelOp, target: Target) -> Choice:
    """The default schedule of a kernel, with every option stated."""
    outer = outer_loop(kernel)
    ops = list(outer.body.block.ops) if outer else list(kernel.body.block.ops)
    reduces = [op for op in ops if isinstance(op, loop.ReduceOp)]
    inner = [op for op in ops if isinstance(op, AxesOp)]
    flat = not any(isinstance(o, AxesOp) for op in inner for o in op.body.walk())
    extents = [outer.hint(a) for a in outer.axes] if outer else []
    if tiled := tiled_contraction(kernel):
        return _contraction(tiled, target)
    if flat and reduces:
        schedule = _cooperative(extents, outer, reduces, long_sums(kernel), target)
        return Choice(schedule, "a reduce along rows: threads share a row, rows share a block")
    if outer:
        apart = accumulators([_lengths(op) for op in long_sums(kernel)])
        schedule = _pointwise(extents, bool(inner), _run(outer, outer.axes[-1:]), apart)
        return Choice(schedule, "independent points: runs of neighbours, dealt over threads")
    return Choice("tileify", "a single point")


def _contraction(tiled: Tiled, target: Target) -> Choice:
    """Tiles the longest row and the longest column axis with the fastest of all candidates."""
    outer, problem = tiled.outer, tiled.problem
    row, column = tiled.row, tiled.column
    extents = [outer.hint(a) for a in outer.axes]
    fitting = candidates(problem, target)
    if not fitting:
        return Choice(_pointwise(extents, True), "a contraction of which no tile fits on an SM")
    best = fitting[0]

    tiled_axes = outer.axes[min(row.index, column.index) :]

    def per_axis(rows: int, columns: int, axes: Sequence[BlockArgument] = tiled_axes) -> str:
        return ",".join(str(rows if a is row else columns if a is column else 1) for a in axes)

    chunk = min(best.chunk, problem.k + -problem.k % VECTOR)
    slabs = best.computed_bytes
    for op, varies in tiled.chunked.items():
        shape = zip((row, column), best.block, strict=True)
        points = chunk * prod(n for axis, n in shape if axis in varies)
        slabs += points * element_bytes(op.result.type)
    steps = ["tileify"]
    if problem.k >= VECTOR:
        steps.append(f"chunk-matmul-k{{bk={best.chunk} vector={VECTOR}}}")
    if best.splits > 1:
        steps.append(_split(best.splits, extents))
    group = f" group={PANEL}" if _panels(problem, best) else ""
    # An axis of which a thread has one point is no serial axis.
    points = {row: best.thread[0], column: best.thread[1]}
    held = per_axis(*best.thread, [a for a in tiled_axes if points.get(a, 1) > 1]) or "1"
    steps += [
        f"blockify-launch{{block={per_axis(*best.block)} thread={per_axis(*best.threads)}{group}}}",
        f"stage-inputs{{budget={slabs}{' compute=true' if best.computes else ''}}}",
        f"register-tile{{extents={held}}}",
        "permute-register-tile",
    ]
    lost = [str(other) for other in fitting[1:]]
    if best.chunks > 1:
        steps += [f"double-buffer{{depth={best.depth}}}", "async-copy"]
        lost += [_without_tma(best)] if target.has_tma else []
    steps.append("pad-smem")
    if best.chunks > 1:
        steps.append("pipeline-k-outer")
    steps.append(f"mark-unroll{{limit={max(best.chunk // VECTOR, 1)}}}")
    return Choice(",".join(steps), str(best), tuple(lost))


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


def _cooperative(
    extents: list[int],
    outer: loop.ForOp | None,
    reduces: list[loop.ReduceOp],
    sums: list[loop.ReduceOp],
    target: Target,
) -> str:
    """
    Gives a row so many threads that each takes about two runs, and a block so many rows that it
    has 256 threads, unless SMs would then stay empty.
    """
    length = max(r.hint(r.axes[-1]) for r in reduces)
    row_count = prod(extents)
    row = outer.axes[-1] if outer and outer.axes else None
    strided = row is not None and _unit_stride(reduces, row) > _unit_stride(reduces, None)
    lengths = [_lengths(op) for op in sums]
    if strided and row_count >= target.sms * BLOCK_THREADS:
        return _pointwise(extents, True, apart=accumulators(lengths))
    run = min(_run(r, r.axes) for r in reduces)
    vector = 1 if strided or length < RUN else run
    threads = min(MAX_THREADS, _power_of_two(max(1, ceil(length / (2 * vector)))))
    if strided:
        rows, threads = target.warp, min(threads, target.warp)
    else:
        share = max(1, BLOCK_THREADS // threads)
        rows = max(1, min(share, extents[-1] if extents else 1, ceil(row_count / target.sms)))
        rows = _power_of_two(rows)
    if threads == 1:
        return _pointwise(extents, True, apart=accumulators(lengths))
    steps = ["tileify"]
    sole = outer is None or [op for op in outer.body.block.ops if op.regions] == reduces
    splits = min(target.sms // max(ceil(row_count / rows), 1), rows * length // SPLIT_POINTS)
    if len(reduces) == 1 and sole and splits > 1:
        steps.append(_split(splits, extents))
        lengths = [_split_lengths(of_sum, splits) for of_sum in lengths]
        length = ceil(length / splits)
        threads = min(threads, BLOCK_THREADS)
    loads = [op for r in reduces for op in r.body.walk() if isinstance(op, loop.LoadOp)]
    size = max((element_bytes(op.result.type) for op in loads), default=4)
    slab = ceil(length / (threads * vector)) * threads * vector * rows * size
    budget = STATIC_SHARED_LIMIT if slab <= STATIC_SHARED_LIMIT else target.shared_per_block // 2
    steps.append(f"cooperative-reduce{{threads={threads} rows={rows} vector={vector}}}")
    dealt = [[*outer, ceil(last / (threads * vector))] for *outer, last in lengths]
    steps += accumulators(dealt, vector)
    steps += [f"stage-inputs{{budget={budget}}}", "pad-smem"]
    return ",".join(steps)


def _lengths(reduce: loop.ReduceOp) -> list[int]:
    """The lengths of the axes of a reduce."""
    return [reduce.hint(a) for a in reduce.axes]


def _split_lengths(lengths: Sequence[int], splits: int) -> list[int]:
    """The lengths of the axes of a part of a reduce, the first of which is split."""
    at = next(n for n, length in enumerate(lengths) if length > 1)
    return [ceil(n / splits) if i == at else n for i, n in enumerate(lengths)]


def _split(splits: int, extents: list[int]) -> str:
    """A split whose combining kernel has all partial sums of a point in flight at once."""
    if prod(extents) == 1:
        then = f"tileify,cooperative-reduce{{threads={WARP} rows=1 vector=1}}"
    else:
        then = _pointwise(extents, False, apart=accumulators([[splits]]))
    return f'split-matmul-k{{splits={splits} then="{then},mark-unroll{{limit={IN_FLIGHT}}}"}}'


def _unit_stride(reduces: list[loop.ReduceOp], axis: BlockArgument | None) -> int:
    """The elements of what is loaded with neighbours along an axis (the reduce's own if None)."""
    count = 0
    for reduce in reduces:
        along = reduce.axes[-1] if axis is None else axis
        for op in reduce.body.walk():
            if isinstance(op, loop.LoadOp) and op.subscripts:
                assert isinstance(op.ref.type, MemRefType)
                unit = strides_of(op.ref.type)[-1] == 1
                unit = unit and op.subscripts[-1].coefficient(along) == 1
                count += prod(shape_of(op.ref)) if unit else 0
    return count


def _run(nest: AxesOp, axes: Sequence[BlockArgument]) -> int:
    """
    The number of neighbours along the last axis that a thread takes: as many of the largest
    elements as an access takes, if rows are whole numbers of such accesses; four at least.
    """
    if not axes:
        return RUN
    accesses = [op for op in nest.walk() if isinstance(op, loop.LoadOp | loop.StoreOp)]
    sizes = [
        element_bytes(op.value.type if isinstance(op, loop.StoreOp) else op.result.type)
        for op in accesses
        if op.subscripts and op.subscripts[-1].coefficient(axes[-1]) == 1
    ]
    run = max(RUN, WIDEST_ACCESS // max(sizes, default=WIDEST_ACCESS))
    return run if nest.hint(axes[-1]) % run == 0 else RUN


def _pointwise(extents: list[int], heavy: bool, run: int = RUN, apart: Sequence[str] = ()) -> str:
    """
    Deals the points over blocks of 256 threads; a thread takes a run of neighbouring points,
    unless a point is work enough (`heavy`). Of widths, the one with the fewest idle threads.
    `apart` is the step that takes long sums apart, if there are any.
    """
    if not extents:
        return ",".join(["tileify", *apart])
    columns = extents[-1]
    run = 1 if heavy or columns < RUN else run
    widest = min(BLOCK_THREADS, _power_of_two(ceil(columns / run)))
    across = min(
        (n for n in (widest, widest // 2, widest // 4) if n >= min(widest, WARP)),
        key=lambda n: (ceil(columns / (n * run)) * n, -n),
    )
    down = min(BLOCK_THREADS // across, _power_of_two(extents[-2])) if len(extents) > 1 else 1
    block = f"{down},{across * run}" if down > 1 else f"{across * run}"
    thread = f"{down},{across}" if down > 1 else f"{across}"
    steps = ["tileify", f"blockify-launch{{block={block} thread={thread}}}"]
    steps += apart
    if run > 1:
        steps.append(f"register-tile{{extents={run}}}")
    return ",".join(steps)


def _power_of_two(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()
