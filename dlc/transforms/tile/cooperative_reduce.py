"""The threads of a block share the reduces of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from dlc.analysis.tile.reads_before_update import reads_before_update
from dlc.analysis.tile.row_lanes import (
    dealt_axis,
    most_rounds,
    rounds_along,
    rounds_of_share,
    row_lanes,
)
from dlc.analysis.tile.tile_state import tile_state
from dlc.dialects import tile
from dlc.dialects.axes import BLOCK, REGISTER, SERIAL, THREAD, AxesOp
from dlc.dialects.scan_ops import AlongOpBase
from dlc.ir.expr import Expr
from dlc.ir.sizes import ceildiv
from dlc.registry import OptionError
from dlc.schedule.sorted_rows import MOST_SORTED
from dlc.target import MAX_CLUSTER, MAX_THREADS, WARP, Target, target_of
from dlc.text import counted
from dlc.transforms.axes.axis_edit import Axis, keep, replace_axes
from dlc.transforms.axes.combining import combine_after
from dlc.transforms.step import Decline, Misplaced, SchedulingPass
from dlc.transforms.step_space import Domain, Situation, Value, powers


@dataclass(frozen=True)
class CooperativeReducePass(SchedulingPass):
    """
    Several threads share each reduce of a row, then combine what they hold; and each scan.

    Free axes become block axes, beside those that `split-matmul-k` makes; every reduce and every
    inner loop is dealt over the same threads, so that a thread meets the same elements in each:
    along its last axis and, where that is too short for all of them, the axes before it.
    A scan goes along the loop, the threads and the run of each, which keep the order of its points;
    a sort along threads and runs, which take all of its row at once. Beside a sort, loops of no
    more points than threads have runs of one.

    *Legal when* no loop holds another: monoids are commutative, and a thread folds every n-th run
    of the row.
    *Faster because* a row is read by neighbouring threads from neighbouring addresses, and because
    few long rows still fill the GPU.

    ```
    tile.launch thread(%row in 32) { %s = tile.reduce add serial(%k in 2048) -> f32 { … %k … } … }
    ```
    becomes, with `threads=256 rows=1 vector=4`,
    ```
    tile.launch block(%row in 32) thread(%t in 256) {
      %p = tile.reduce add serial(%ko in 2) register(%kv in 4) -> f32 { … %ko*1024 + %t*4 + %kv … }
      %s = tile.combine add %p across(%t) : f32
    ```

    With `order=rows` neighbouring threads take neighbouring rows: where those are neighbours in
    memory, `threads=16 rows=32 order=rows` makes `thread(%t in 16, %trow in 32)`, of which a warp
    reads 32 rows of one point, and whose parts of a row are combined through shared memory.

    With `blocks=8` the blocks of a cluster hold a row between them: each takes a run of the rounds
    of every loop, the same in all, and what they reduce is folded for each of them. What
    `stage-inputs` keeps of a row is then a block's share.
    ```
    tile.launch block(%row in 32, %share in 8) thread(%t in 256) {
      %p = tile.reduce add serial(%ko in 4) register(%kv in 4) -> f32 {
        … (%share*4 + %ko)*1024 + %t*4 + %kv …
      }
      %q = tile.combine add %p across(%t) : f32
      %s = tile.combine add %q across(%share) cluster whole : f32
    ```
    """

    name = "cooperative-reduce"

    threads: int | None = None
    """Threads for a row: 2, 4, 8, 16 or a multiple of 32."""
    rows: int = 1
    """Rows (points of the innermost free axis) that share a block."""
    vector: int = 1
    """Elements that a thread takes in a run."""
    order: Literal["threads", "rows"] = "threads"
    """What neighbouring threads of a block are: `threads` of a row or `rows`."""
    blocks: int = 1
    """Blocks of a cluster that hold a row between them."""

    domains: ClassVar[Mapping[str, Domain]] = {
        "threads": Domain(
            (2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024), narrowed=lambda s: _threads(s)
        ),
        "rows": Domain((1, 2, 3, 4, 5, 8, 16, 32, 64), least=1, narrowed=lambda s: _rows(s)),
        "vector": Domain((1, 2, 4, 8), least=1, narrowed=lambda s: _vectors(s)),
        "order": Domain(("threads", "rows"), narrowed=lambda s: _orders(s)),
        "blocks": Domain(tuple(range(1, MAX_CLUSTER + 1)), least=1, narrowed=lambda s: _blocks(s)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        threads, rows = self.threads, self.rows
        if self.blocks > MAX_CLUSTER:
            message = f"a cluster has at most {MAX_CLUSTER} blocks, found {self.blocks}"
            raise OptionError("blocks", message)
        if threads is None:
            return
        if not (threads in (2, 4, 8, 16) or (threads > 0 and threads % WARP == 0)):
            message = f"threads must be 2, 4, 8, 16 or a multiple of 32, not {threads}"
            raise OptionError("threads", message)
        if threads * rows > MAX_THREADS:
            message = f"{rows} rows of {threads} threads are not a block of at most {MAX_THREADS}"
            hint = f"it holds {counted(MAX_THREADS // threads, 'row')} of {threads}"
            raise OptionError("rows" if rows > 1 else "threads", message, hint)

    def rewrite_tile(self, kernel: tile.KernelOp, module: ModuleOp) -> str:
        launch = kernel.launch
        _check(launch)
        assert self.threads is not None
        rows, vector = self.rows, self.vector
        _check_sorts(launch, self.threads, vector)
        if self.blocks > 1:
            self._check_cluster(kernel, target_of(module))
        free = launch.axes_of(THREAD)
        grid = {a: keep(a, launch, BLOCK) for a in (*launch.axes_of(BLOCK), *free[:-1])}
        lane, share = Axis("t", self.threads, THREAD), Axis("share", self.blocks, BLOCK)
        inside = [share, lane]
        parts: dict[BlockArgument, tuple[Axis, Axis]] = {}
        for row in free[-1:]:
            name = row.name_hint
            blocks = ceildiv(launch.extent(row), rows)
            across = Axis(name if rows == 1 else f"b{name}", blocks, BLOCK)
            within = Axis(f"t{name}", rows, THREAD)
            dealt = [lane, within] if self.order == "rows" else [within, lane]
            inside = [across, share, *dealt]
            parts[row] = across, within

        def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
            found = {a: e[k] for a, k in grid.items()}
            return found | {row: e[block] * rows + e[own] for row, (block, own) in parts.items()}

        new = replace_axes(launch, [*grid.values(), *inside], meaning)
        thread = new[lane]
        loops = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
        sorts = bool(_sorted(launch))
        for op in loops:
            run = _run(op, self.threads, vector, sorts)
            _deal(op, thread, self.threads, run, new.get(share), self.blocks)
            if isinstance(op, tile.ReduceOp):
                whole = combine_after(op, thread)
                if self.blocks > 1:
                    combine_after(whole, new[share], cluster=True, whole=True)
        fastest = ", neighbours in a warp" if self.order == "rows" else ""
        shared = f"{counted(rows, 'row')} in a block{fastest}"
        if self.blocks > 1:
            shared = f"{counted(rows, 'row')} in a cluster of {self.blocks} blocks{fastest}"
        return f"{self.threads} threads for a row, {shared}, runs of {vector}"

    def _check_cluster(self, kernel: tile.KernelOp, target: Target) -> None:
        """Raises where blocks cannot hold a row between them."""
        launch, one = kernel.launch, "blocks=1 takes any chip"
        if not target.has("cluster"):
            raise OptionError("blocks", target.lacking("cluster"), one)
        if launch.block_fold is not None:
            raise Decline("blocks share its reduce already, and fold what they hold once")
        loops = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
        if any(map(_scans, loops)):
            raise Decline("it scans or sorts along a row, which a block has whole")
        if _reads_stored(kernel):
            raise Decline("it reads what other blocks may have stored")
        assert self.threads is not None
        rounds = [_most_rounds(op, self.threads, self.vector) for op in loops]
        if 0 in rounds:
            raise Decline("a loop of it is as long as a size, of which no block has a fixed share")
        if max(rounds) < self.blocks:
            longest = counted(max(rounds), "round")
            raise Decline(f"no axis of a row has a round for each of {self.blocks}: {longest}")


def _check(launch: tile.LaunchOp) -> None:
    """Raises where there is no row to share, or not yet."""
    state = tile_state(launch)
    if state.is_partitioned:
        raise Misplaced("the launch is partitioned already", "run cooperative-reduce before")
    if any(isinstance(buffer, tile.ComputeOp) for buffer in state.buffers):
        message = "slabs are computed already for the threads that there are"
        raise Misplaced(message, "run cooperative-reduce before stage-inputs")
    top = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
    if not any(isinstance(op, tile.ReduceOp) or _scans(op) for op in top):
        raise Decline("it has no reduce or scan")
    for op in top:
        if not op.axes:
            raise Decline("a loop of it has one point")
        if any(isinstance(o, AxesOp) for o in op.body.walk()):
            raise Decline("a loop of it holds another loop")


def _check_sorts(launch: tile.LaunchOp, threads: int, vector: int) -> None:
    """Raises where a row is sorted of which threads do not take all at once, two points or more."""
    for extent in _sorted(launch):
        if extent != threads * vector or vector < 2:
            row = f"a row of {counted(extent, 'point')} is sorted"
            raise Decline(f"{row}, and {threads} threads take {vector} each")


def _sorted(launch: tile.LaunchOp) -> list[int]:
    """The points of the rows that are sorted."""
    loops = [op for op in launch.body.block.ops if isinstance(op, tile.ForOp)]
    return [
        op.extent(op.axes[0])
        for op in loops
        if any(isinstance(inner, tile.SortOp) for inner in op.body.block.ops)
    ]


def _scans(op: AxesOp) -> bool:
    """True if a loop is one along which scans or sorts go."""
    return any(isinstance(inner, AlongOpBase) for inner in op.body.block.ops)


def _run(op: AxesOp, threads: int, vector: int, sorts: bool) -> int:
    """Beside a sort, what a thread takes in a run of a loop that would leave threads idle."""
    points = op.extent(op.axes[-1])
    return 1 if sorts and not _scans(op) and points <= threads else vector


def _rounds_along(op: AxesOp, threads: int, vector: int) -> tuple[list[int], list[int]]:
    """The threads along each axis of a loop, and how often they come along it."""
    extents = [op.extent(a) for a in op.axes]
    lanes = [1] * (len(extents) - 1)
    lanes = [*lanes, threads] if _scans(op) else row_lanes(extents, threads, vector)
    return lanes, rounds_along(extents, lanes, vector)


def _most_rounds(op: AxesOp, threads: int, vector: int) -> int:
    """The most rounds along an axis of a loop that is as long as a number; 0 if none is."""
    return most_rounds(_rounds_along(op, threads, vector)[1])


def _deal(
    op: AxesOp, thread: SSAValue, threads: int, vector: int, share: SSAValue | None, blocks: int
) -> None:
    """
    Deals the innermost axis of a loop over the threads in runs of `vector`, and, where that is too
    short for all of them, the axes before it, too; and the rounds along one of them over blocks.
    """
    axes, (lanes, rounds) = op.axes, _rounds_along(op, threads, vector)
    dealt = None if share is None else axes[dealt_axis(rounds, blocks)]
    runs: dict[BlockArgument, Axis] = {}
    for axis, own, count in zip(axes, lanes, rounds_of_share(rounds, blocks), strict=True):
        kept = own == 1 and axis is not axes[-1] and axis is not dealt
        runs[axis] = keep(axis, op) if kept else Axis(f"{axis.name_hint}o", count, SERIAL)
    point = Axis(f"{axes[-1].name_hint}v", vector, REGISTER)

    def meaning(e: Mapping[Axis, Expr]) -> dict[BlockArgument, Expr]:
        found, left = dict[BlockArgument, Expr](), Expr.of(thread)
        for axis, own in zip(reversed(axes), reversed(lanes), strict=True):
            among, left = (left, Expr()) if axis is axes[0] else (left % own, left // own)
            run = e[runs[axis]]
            if share is not None and axis is dealt:
                run = Expr.of(share) * runs[axis].extent + run
            found[axis] = run * own + among
            if axis is axes[-1]:
                found[axis] = found[axis] * vector + e[point]
        return found

    replace_axes(op, [*runs.values(), point], meaning)


def _threads(s: Situation) -> list[Value]:
    """Powers of two up to the first that covers the longest loop."""
    launch = s.kernel.launch
    _check(launch)
    loops = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
    longest = max(prod(op.extent(a) for a in op.axes) for op in loops)
    if sizes := _sorted(launch):
        return [n for n in powers(MAX_THREADS, least=2) if 2 <= max(sizes) // n <= MOST_SORTED]
    return list(powers(min(longest, MAX_THREADS), least=2))


def _vectors(s: Situation) -> list[Value]:
    """What there is to try; of a row that is sorted, what threads have of it."""
    threads = s.given["threads"]
    assert isinstance(threads, int)
    if (sizes := _sorted(s.kernel.launch)) and (vector := max(sizes) // threads):
        return [vector]
    return [1, 2, 4, 8]


def _rows(s: Situation) -> list[Value]:
    """Powers of two up to the first that covers the rows, as far as a block holds them."""
    threads, launch = s.given["threads"], s.kernel.launch
    assert isinstance(threads, int)
    free = launch.axes_of(THREAD)[-1:]
    most = min([launch.extent(a) for a in free] or [1], default=1)
    return [n for n in powers(most) if n * threads <= MAX_THREADS]


def _reads_stored(kernel: tile.KernelOp) -> bool:
    """True if a kernel reads what it stores, or makes more of what it updates than what it stores
    there."""
    stored = {*kernel.output_refs, *kernel.updated_refs.values()}
    before = dict(reads_before_update(kernel))
    loads = (op for op in kernel.walk() if isinstance(op, tile.LoadOp))
    return any(op.ref in stored and op not in before for op in loads)


def _blocks(s: Situation) -> list[Value]:
    """Those of a cluster that a row has rounds for."""
    if not s.target.has("cluster"):
        return [1]
    threads, vector, launch = s.given["threads"], s.given["vector"], s.kernel.launch
    assert isinstance(threads, int)
    assert isinstance(vector, int)
    loops = [op for op in launch.body.block.ops if isinstance(op, AxesOp)]
    if any(map(_scans, loops)) or launch.block_fold is not None or _reads_stored(s.kernel):
        return [1]
    rounds = [_most_rounds(op, threads, vector) for op in loops]
    return [*range(1, 2 if 0 in rounds else min(max(rounds), MAX_CLUSTER) + 1)]


def _orders(s: Situation) -> tuple[Value, ...]:
    """Both where there are several rows."""
    return ("threads", "rows") if s.given["rows"] != 1 else ("threads",)
