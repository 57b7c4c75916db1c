"""The schedule of attention in tiles, as text."""

from __future__ import annotations

from xdsl.ir import SSAValue

from dlc.schedule.cascade_problem import TiledCascade
from dlc.schedule.cascade_tiles import CascadeCandidate


def cascade_steps(tiled: TiledCascade, best: CascadeCandidate, split: str) -> str:
    """The schedule of attention in tiles, `split` being the step that splits the keys."""
    outer, (row, column) = tiled.outer, (tiled.row, tiled.column)
    axes = outer.axes[min(axis.index for axis in (row or column, column)) :]
    sizes: dict[SSAValue, tuple[int, int]] = {
        column: (best.block[1], best.threads[1]),
    }
    if row is not None:
        sizes[row] = best.block[0], best.threads[0]
    block = ",".join(str(sizes.get(a, (1, 1))[0]) for a in axes)
    thread = ",".join(str(sizes.get(a, (1, 1))[1]) for a in axes)
    held = [sizes[a][0] // sizes[a][1] for a in axes if a in sizes]
    registers = ",".join(str(n) for n in held if n > 1) or "1"
    lanes = f" lanes={best.lanes}" if best.lanes > 1 else ""
    (rows, keys), budget = best.points, best.slab_bytes + best.power_bytes
    if best.block[0] == 1:  # what a score of the only row is computed of is as long as a key
        budget += best.problem.key_bytes
    staged = f" buffers={','.join(tiled.shared)}" if best.once_bytes or tiled.others else ""
    steps = [
        "tileify",
        f"chunk-matmul-k{{bk={best.chunk} vector={best.vector}}}",
        *([split] if best.splits > 1 else []),
        f"blockify-launch{{block={block} thread={thread}{_order(tiled, best)}{lanes}}}",
        f"stage-inputs{{budget={budget}{staged} compute=true points={rows},{keys}}}",
        f"register-tile{{extents={registers}{best.tile_options}}}",
        *(["permute-register-tile"] if not best.tile_options else []),
        *best.copy_steps,
        f"mark-unroll{{limit={best.unrolled}}}",
    ]
    return ",".join(steps)


def _order(tiled: TiledCascade, best: CascadeCandidate) -> str:
    """The options for the order of blocks where some have more to do than others."""
    if not best.waves or tiled.row is None or best.block[0] >= best.problem.rows:
        return ""
    last = f" last={len(tiled.outer.axes) - tiled.row.index}"
    return f"{last} waves={best.waves}" if best.waves > 1 else last
