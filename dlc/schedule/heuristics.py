"""
The schedule of a kernel, decided once: from a Loop IR kernel and a target to a pipeline string.

This is the only place with heuristics (rule R5). Three shapes of kernels are told apart: a
contraction under free loops gets a tiled schedule, reduces along rows a cooperative one, and
everything else is dealt over threads point by point.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import BlockArgument

from dlc.analysis.contraction import contractions
from dlc.analysis.layout import strides_of
from dlc.dialects import loop
from dlc.dialects.axes import AxesOp
from dlc.dialects.kernel import element_bytes
from dlc.schedule.target import MAX_THREADS, STATIC_SHARED_LIMIT, Target

CHUNK = 16
"""Points of K in a chunk: 64 bytes of a row, half a cache line."""
RUN = 4
"""Elements of fp32 in the widest access."""
BLOCK_THREADS = 256


@dataclass(frozen=True)
class Tile:
    """A candidate for a contraction: outputs of a thread and threads of a block."""

    rows: int
    columns: int
    thread_rows: int = 16
    thread_columns: int = 16

    @property
    def block_rows(self) -> int:
        return self.rows * self.thread_rows

    @property
    def block_columns(self) -> int:
        return self.columns * self.thread_columns

    @property
    def threads(self) -> int:
        return self.thread_rows * self.thread_columns

    @property
    def efficiency(self) -> float:
        """The share of multiply-adds in what a thread issues: it reads rows + columns operands
        for rows x columns of them, columns four at a time."""
        useful = self.rows * self.columns
        return useful / (useful + self.rows + ceil(self.columns / RUN))


TILES = (
    Tile(8, 8),
    Tile(8, 4),
    Tile(4, 8),
    Tile(4, 4),
    Tile(8, 4, 8, 16),
    Tile(4, 4, 8, 16),
    Tile(4, 4, 8, 8),
    Tile(2, 4, 16, 8),
    Tile(2, 2, 8, 16),
    Tile(1, 4, 16, 8),
)


def choose_schedule(kernel: loop.KernelOp, target: Target) -> str:
    """The default schedule of a kernel, with every option stated."""
    outer = _outer_loop(kernel)
    ops = list(outer.body.block.ops) if outer else list(kernel.body.block.ops)
    reduces = [op for op in ops if isinstance(op, loop.ReduceOp)]
    inner = [op for op in ops if isinstance(op, AxesOp)]
    flat = not any(isinstance(o, AxesOp) for op in inner for o in op.body.walk())
    extents = [outer.extent(a) for a in outer.axes] if outer else []
    if flat and outer and len(inner) == len(reduces) == 1 and contractions(kernel):
        return _contraction(extents, reduces[0], target)
    if flat and reduces and all(r.monoid.commutative for r in reduces):
        return _cooperative(extents, outer, reduces, target)
    if outer:
        return _pointwise(extents, bool(inner))
    return "tileify"


def _outer_loop(kernel: loop.KernelOp) -> loop.ForOp | None:
    """The loop around the whole kernel, if there is one."""
    nested = [op for op in kernel.body.block.ops if op.regions or isinstance(op, loop.StoreOp)]
    return nested[0] if len(nested) == 1 and isinstance(nested[0], loop.ForOp) else None


def _contraction(extents: list[int], reduce: loop.ReduceOp, target: Target) -> str:
    """
    Takes the tile with the least time: an SM works through its share of the blocks, each costing
    its multiply-adds over the tile's efficiency, ragged parts included.
    """
    *batch, rows, columns = extents

    def seconds(tile: Tile) -> float:
        blocks = prod(batch) * ceil(rows / tile.block_rows) * ceil(columns / tile.block_columns)
        share = ceil(blocks / target.sms) * tile.block_rows * tile.block_columns
        return share / tile.efficiency

    tile = min(TILES, key=lambda t: (seconds(t), -t.rows * t.columns))
    k = reduce.extent(reduce.axes[-1])
    steps = ["tileify"]
    chunk = min(CHUNK, k)
    if k > CHUNK:
        steps.append(f"chunk-matmul-k{{bk={CHUNK}}}")
    operands = max(2, sum(isinstance(op, loop.LoadOp) for op in reduce.body.walk()))
    widest = max(tile.block_rows, tile.block_columns) * chunk * 4
    budget = max((tile.block_rows + tile.block_columns) * chunk * 4, operands * widest)
    steps += [
        f"blockify-launch{{block={tile.block_rows},{tile.block_columns} "
        f"thread={tile.thread_rows},{tile.thread_columns}}}",
        f"stage-inputs{{budget={min(budget, target.shared_per_block)}}}",
        f"register-tile{{extents={tile.rows},{tile.columns}}}",
        f"mark-unroll{{limit={CHUNK}}}",
    ]
    return ",".join(steps)


def _cooperative(
    extents: list[int],
    outer: loop.ForOp | None,
    reduces: list[loop.ReduceOp],
    target: Target,
) -> str:
    """
    Gives a row so many threads that each takes about two runs, and a block so many rows that it
    has 256 threads, unless SMs would then stay empty.
    """
    length = max(r.extent(r.axes[-1]) for r in reduces)
    row_count = prod(extents)
    row = outer.axes[-1] if outer and outer.axes else None
    strided = row is not None and _unit_stride(reduces, row) > _unit_stride(reduces, None)
    if strided and row_count >= target.sms * BLOCK_THREADS:
        return _pointwise(extents, True)
    vector = 1 if strided or length < RUN else RUN
    threads = min(MAX_THREADS, _power_of_two(max(1, ceil(length / (2 * vector)))))
    if strided:
        rows, threads = 32, min(threads, 32)
    else:
        share = max(1, BLOCK_THREADS // threads)
        rows = max(1, min(share, extents[-1] if extents else 1, ceil(row_count / target.sms)))
        rows = _power_of_two(rows)
    if threads == 1:
        return _pointwise(extents, True) if outer else "tileify"
    loads = [op for r in reduces for op in r.body.walk() if isinstance(op, loop.LoadOp)]
    size = max((element_bytes(op.result.type) for op in loads), default=4)
    slab = ceil(length / (threads * vector)) * threads * vector * rows * size
    budget = STATIC_SHARED_LIMIT if slab <= STATIC_SHARED_LIMIT else target.shared_per_block // 2
    return ",".join(
        [
            "tileify",
            f"cooperative-reduce{{threads={threads} rows={rows} vector={vector}}}",
            f"stage-inputs{{budget={budget}}}",
        ]
    )


def _unit_stride(reduces: list[loop.ReduceOp], axis: BlockArgument | None) -> int:
    """How many loads have neighbouring elements along an axis (the reduce's own if None)."""
    count = 0
    for reduce in reduces:
        along = reduce.axes[-1] if axis is None else axis
        for op in reduce.body.walk():
            if isinstance(op, loop.LoadOp) and op.subscripts:
                unit = strides_of(op.ref.type)[-1] == 1  # pyright: ignore[reportArgumentType]
                count += unit and op.subscripts[-1].coefficient(along) == 1
    return count


def _pointwise(extents: list[int], heavy: bool) -> str:
    """
    Deals the points over blocks of 256 threads; a thread takes a run of neighbouring points,
    unless a point is work enough (`heavy`).
    """
    if not extents:
        return "tileify"
    columns = extents[-1]
    run = 1 if heavy or columns < RUN else RUN
    across = min(BLOCK_THREADS, _power_of_two(ceil(columns / run)))
    down = min(BLOCK_THREADS // across, _power_of_two(extents[-2])) if len(extents) > 1 else 1
    block = f"{down},{across * run}" if down > 1 else f"{across * run}"
    thread = f"{down},{across}" if down > 1 else f"{across}"
    steps = ["tileify", f"blockify-launch{{block={block} thread={thread}}}"]
    if run > 1:
        steps.append(f"register-tile{{extents={run}}}")
    return ",".join(steps)


def _power_of_two(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()
