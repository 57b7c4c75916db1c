"""
How the threads of a block share the rows that a kernel reduces, and the blocks a row.

The estimate and the schedule go by one plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import BlockArgument, Operation

from dlc.analysis.kernel.occupancy import occupancy
from dlc.analysis.loop.cost import flops_alike
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel_memory import element_bytes, register_words
from dlc.dialects.layouts import shape_of, strides_of
from dlc.ir.monoid import MONOIDS
from dlc.ir.sizes import divides
from dlc.schedule.contraction_tiles import outer_loop
from dlc.schedule.endings import HELD_WORDS, WHOLE, Ending, Parts, fastest_ending
from dlc.target import BLOCK_THREADS, MAX_THREADS, SECTOR_BYTES, WIDEST_ACCESS, Target

SPLIT_POINTS = 4096
"""Points of a reduce that are worth a block of their own."""
RUN = 4
"""Elements of fp32 in the widest access."""
HELD = 16
"""Elements of a row that a thread keeps in registers from one sweep over it to the next."""
ACROSS = 512
"""Threads of a block whose neighbours take neighbouring rows, that share a row along several axes,
or a part of a row: what each adds to what others hold grows as its threads do, and so do the
registers of all."""
SCANNED = 8
"""Elements that a thread scans at once where its neighbours scan other rows: what it exchanges with
others of its row is exchanged once for all of them."""
RESERVED = 4096
"""Bytes of shared memory beside slabs, for what threads exchange."""
SCAN_CLOCKS = 1200
"""Clocks of an iteration of a scan, which waits for the one before: a load from memory under load,
shuffles, two barriers and reads of shared memory."""
SCAN_INSTRUCTIONS, POINT_INSTRUCTIONS, PART_INSTRUCTIONS = 48, 5, 3
"""Instructions of a thread in an iteration of a scan: for shuffles, barriers and addresses, for
each of its points, and for each part of a row that it reads."""
SCAN_REGISTERS = 48
"""Registers of a thread that scans, as nvcc has it for sums and extremes of fp32."""


@dataclass(frozen=True)
class RowPlan:
    """The shape of a block that reduces rows."""

    threads: int
    """The threads that share a row."""
    rows: int
    """The rows that a block takes at once."""
    vector: int
    """The neighbours that a thread takes at once."""
    parts: int
    """The parts of a row, each a block's; 1 if a block takes whole rows."""
    length: int
    """The points of a row along its last axis, or of a part of one."""
    across: bool = False
    """True if neighbouring threads take neighbouring rows, not points of one row."""
    left: Parts = WHOLE
    """What blocks leave that share rows."""
    ending: Ending = "workspace"
    """What folds that."""
    blocks: int = 1
    """The blocks of a cluster that hold a row between them."""
    kept_bytes: int = 0
    """What each of these keeps of it in shared memory."""
    ahead: bool = False
    """True if a warp asks for what its row alone needs before it knows what the first reduce
    gives."""


def row_sweeps(ops: Sequence[Operation]) -> list[loop.ReduceOp | loop.ForOp]:
    """The operations that fold rows: reduces, and loops along which scans go."""
    return [
        op
        for op in ops
        if isinstance(op, loop.ReduceOp) or (isinstance(op, loop.ForOp) and loop.scans_in(op))
    ]


def row_plan(
    outer: loop.ForOp | None, reduces: Sequence[loop.ReduceOp | loop.ForOp], target: Target
) -> RowPlan | None:
    """
    Gives a row so many threads that each takes about two runs, as few as take no more each, or a
    warp if that can keep it and there are rows enough for all schedulers: warps wait for no
    others. A block takes so many rows that it has 256 threads, unless SMs would then stay empty.
    None where a thread does best with a row of its own.
    """
    extents = [outer.hint(a) for a in outer.axes] if outer else []
    length = max(r.hint(r.axes[-1]) for r in reduces)
    whole = max(prod(map(r.hint, r.axes)) for r in reduces)
    row_count = prod(extents)
    row = outer.axes[-1] if outer and outer.axes else None
    strided = row is not None and _unit_stride(reduces, row) > _unit_stride(reduces, None)
    scans = length >= SCANNED and any(isinstance(op, loop.ForOp) for op in reduces)
    if strided and row_count >= target.sms * BLOCK_THREADS and not scans:
        return None
    run = min(run_of(r, r.axes) for r in reduces)
    ahead = False
    if strided:
        vector = run = SCANNED if scans else 1
    else:
        run = run if length >= RUN else 1
        folds = all(isinstance(reduce, loop.ReduceOp) for reduce in reduces)
        vector = 1 if folds and not _in_runs(reduces, run) else run
    threads = min(MAX_THREADS, power_of_two(max(1, ceil(whole / (2 * run)))))
    if strided:
        rows = _neighbours(row_count, extents[-1], reduces, target)
        if outer and reads_again(outer):
            rows = _held_rows(rows, row_count, whole, reduces, target)
        threads = min(threads, ACROSS // rows)
    else:
        if whole > length:
            threads = min(threads, ACROSS)
        schedulers = target.sms * target.schedulers
        ahead = row_count >= schedulers and _asked_ahead(outer, reduces, target)
        if ahead or (whole <= HELD * target.warp and row_count >= schedulers):
            threads = min(threads, target.warp)
        if threads > target.warp and length >= threads * vector:
            trips = ceil(length / (threads * vector))
            threads = ceil(length / (trips * vector * target.warp)) * target.warp
        threads = _cheap_to_fold(threads, row_count, whole, reduces, target)
        share = target.schedulers if ahead else max(1, BLOCK_THREADS // threads)
        rows = max(1, min(share, extents[-1] if extents else 1, ceil(row_count / target.sms)))
        rows = power_of_two(rows)
    if threads == 1:
        return None
    sole = outer is None or [op for op in outer.body.block.ops if op.regions] == [*reduces]
    if len(reduces) > 1 or not isinstance(reduces[0], loop.ReduceOp) or not sole:
        return RowPlan(threads, rows, vector, 1, length, strided, ahead=ahead)
    points = [reduces[0].hint(axis) for axis in reduces[0].axes]
    idle = target.sms // max(ceil(row_count / rows), 1)
    parts = max(1, min(idle, rows * prod(points) // SPLIT_POINTS, max(points)))
    if parts > 1:
        threads = min(threads, ACROSS)
        if split_axis(points, parts) == len(points) - 1:
            length = ceil(length / parts)
    words = sum(register_words(result.type) for result in reduces[0].results)
    left = Parts(parts, row_count * words, words, ceil(row_count / rows), rows * words, words)
    return RowPlan(
        threads, rows, vector, parts, length, strided, left, fastest_ending(left, target)
    )


def _asked_ahead(
    outer: loop.ForOp | None, reduces: Sequence[loop.ReduceOp | loop.ForOp], target: Target
) -> bool:
    """
    True if reduces behind the first load what no other row does and none before them, little enough
    for a warp's registers, and none is longer than those. Shuffles let its loads begin before the
    first reduce is known; barriers do not: a norm and two products of 2048 halves at each of 5632
    points took 14.3 us by warps on an H200, 15.9 by blocks, and 14.7 with the norm in a launch of
    its own.
    """
    if outer is None or not all(isinstance(op, loop.ReduceOp) for op in reduces):
        return False
    every = [prod(map(reduce.hint, reduce.axes)) for reduce in reduces]
    known, words, longest = set[object](), 0.0, 0
    for number, (reduce, points) in enumerate(zip(reduces, every, strict=True)):
        loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
        own = {op.ref: op for op in loads if not set(outer.axes).isdisjoint(op.indices)}
        if number:
            sizes = [element_bytes(op.result.type) for ref, op in own.items() if ref not in known]
            words += points / target.warp * sum(sizes) / 4
            longest = max(longest, points if sizes else 0)
        known |= {op.ref for op in loads}
    return 0 < words <= HELD_WORDS and max(every) <= longest


def _neighbours(
    row_count: int,
    neighbours: int,
    reduces: Sequence[loop.ReduceOp | loop.ForOp],
    target: Target,
) -> int:
    """
    The neighbouring rows that a block takes: those of a warp, or fewer, down to the elements of a
    sector, where more blocks than that find an SM that is idle.
    """
    loads = [op for r in reduces for op in r.body.walk() if isinstance(op, loop.LoadOp)]
    sector = SECTOR_BYTES // min((element_bytes(op.result.type) for op in loads), default=4)
    rows = min(target.warp, power_of_two(neighbours))
    while rows > sector and row_count // neighbours * ceil(neighbours / rows) <= target.sms // 2:
        rows //= 2
    return rows


def reads_again(outer: loop.ForOp) -> bool:
    """True if several sweeps over a row load the same input."""
    sweeps = [op for op in outer.body.block.ops if op.regions]
    read = [{o.ref for o in op.walk() if isinstance(o, loop.LoadOp)} for op in sweeps]
    return any(a & b for n, a in enumerate(read) for b in read[:n])


def _held_rows(
    rows: int,
    row_count: int,
    length: int,
    reduces: Sequence[loop.ReduceOp | loop.ForOp],
    target: Target,
) -> int:
    """So many neighbouring rows, or fewer, down to a sector's, that a block keeps them in shared
    memory from one sweep to the next, where the L2 cache keeps not what all blocks read."""
    loads = [op for r in reduces for op in r.body.walk() if isinstance(op, loop.LoadOp)]
    size = max((element_bytes(op.result.type) for op in loads), default=4)
    if row_count * length * size <= target.l2_bytes // 2:
        return rows
    least, most = max(1, SECTOR_BYTES // size), target.shared_per_block // 2
    fewer = rows
    while fewer > least and fewer * length * size > most:
        fewer //= 2
    return fewer if fewer * length * size <= 2 * most - RESERVED else rows


def _cheap_to_fold(
    threads: int,
    row_count: int,
    length: int,
    reduces: Sequence[loop.ReduceOp | loop.ForOp],
    target: Target,
) -> int:
    """
    So many threads for a row that is swept once, or fewer, down to a warp, while there are enough
    to fill the SMs: what threads exchange is to take a fourth of what memory takes, at most.
    """
    reduce = reduces[0]
    if len(reduces) > 1 or not isinstance(reduce, loop.ReduceOp):
        return threads
    loads = [op for op in reduce.body.walk() if isinstance(op, loop.LoadOp)]
    size = sum(element_bytes(op.result.type) for op in loads)
    memory = length * size * row_count / target.memory_rate

    def issue(n: int) -> float:
        return row_count * n * exchanged(reduce, n, target) / target.issue_rate

    while (
        threads // 2 >= target.warp
        and issue(threads) > memory / 4
        and row_count * threads // 2 >= target.sms * MAX_THREADS
        and threads % (2 * target.warp) == 0
    ):
        threads //= 2
    return threads


def exchanged(reduce: loop.ReduceOp, threads: int, target: Target) -> int:
    """Instructions of each of so many threads of a row to fold what they hold of it."""
    types = [result.type for result in reduce.results]
    fold = len(list(MONOIDS[reduce.monoid_name.data].combined(types).ops))
    folds = min(threads, target.warp).bit_length() - 1
    folds += threads // target.warp if threads > target.warp else 0
    return folds * (fold + sum(map(register_words, types)))


def issued_slots(kernel: loop.KernelOp, plan: RowPlan, flops: float, target: Target) -> float:
    """Instructions of all threads of a kernel of so many flops that reduces rows by a plan."""
    outer = outer_loop(kernel)
    block = outer.body.block if outer else kernel.body.block
    reduces = [op for op in block.ops if isinstance(op, loop.ReduceOp)]
    of_row = plan.threads * sum(exchanged(op, plan.threads, target) for op in reduces)
    row_count = prod(map(outer.hint, outer.axes)) if outer else 1
    return flops + row_count * (of_row - flops_alike(block))


def reduced_rows(kernel: loop.KernelOp, target: Target) -> RowPlan | None:
    """The plan of a kernel that reduces rows, and scans nothing."""
    outer = outer_loop(kernel)
    block = outer.body.block if outer else kernel.body.block
    sweeps = [op for op in block.ops if isinstance(op, AxesOp)]
    reduces = [op for op in sweeps if isinstance(op, loop.ReduceOp)]
    if not reduces or any(isinstance(o, AxesOp) for op in sweeps for o in op.body.walk()):
        return None
    return row_plan(outer, reduces, target)


def split_rows(kernel: loop.KernelOp, target: Target) -> RowPlan | None:
    """The plan of a kernel whose rows, which it reduces once, are split into parts."""
    plan = reduced_rows(kernel, target)
    return plan if plan and plan.parts > 1 else None


def scan_seconds(kernel: loop.KernelOp, target: Target) -> float:
    """
    The time of the iterations of scans that follow each other on an SM; 0 without scans, and
    beside sorts.
    """
    outer = outer_loop(kernel)
    sweeps = row_sweeps(list((outer or kernel).body.block.ops))
    scans = [op for op in sweeps if isinstance(op, loop.ForOp)]
    if not scans or any(map(loop.sorts_in, scans)):
        return 0
    row_count = prod(outer.hint(a) for a in outer.axes) if outer else 1
    plan = row_plan(outer, sweeps, target) or RowPlan(1, BLOCK_THREADS, 1, 1, 1, True)
    threads = plan.threads * plan.rows
    blocks = max(1, ceil(row_count / plan.rows))
    held = occupancy(target, threads, SCAN_REGISTERS, 0).blocks
    resident = min(max(1, held), ceil(blocks / target.sms))
    parts = plan.threads if plan.across else plan.threads // target.warp
    work = POINT_INSTRUCTIONS * plan.vector + PART_INSTRUCTIONS * parts
    work += SCAN_INSTRUCTIONS if plan.threads > 1 else 0
    issue = resident * threads * work / target.issue_lanes
    iterations = sum(ceil(op.hint(op.axes[0]) / (plan.threads * plan.vector)) for op in scans)
    turns = ceil(blocks / (target.sms * resident))
    return turns * iterations * max(SCAN_CLOCKS, issue) / target.clock


def split_axis(extents: Sequence[int], parts: int) -> int:
    """The position of the first axis with a point for each part, else of the longest axis."""
    longest = max(range(len(extents)), key=extents.__getitem__)
    return next((n for n, extent in enumerate(extents) if extent >= parts), longest)


def _unit_stride(reduces: Sequence[loop.ReduceOp | loop.ForOp], axis: BlockArgument | None) -> int:
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


def run_of(nest: AxesOp, axes: Sequence[BlockArgument]) -> int:
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


def _in_runs(reduces: Sequence[loop.ReduceOp | loop.ForOp], run: int) -> bool:
    """
    True if the rows that reduces load begin at multiples of `run` elements, as accesses of so many
    do. Else neighbouring lanes take neighbouring elements one by one.
    """
    for reduce in reduces:
        for op in reduce.body.walk():
            if not isinstance(op, loop.LoadOp) or not op.subscripts:
                continue
            assert isinstance(op.ref.type, MemRefType)
            if op.subscripts[-1].coefficient(reduce.axes[-1]) != 1:
                continue
            if not all(divides(run, stride) for stride in strides_of(op.ref.type)[:-1]):
                return False
    return True


def power_of_two(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()
