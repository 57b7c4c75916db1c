"""The pass `materialize-tiles`: see `MaterializeTilesPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.target import Target, target_of
from dlc.transforms.kernel.materialization.body import emit_body
from dlc.transforms.kernel.materialization.emitter import Emitter


@dataclass(frozen=True)
class MaterializeTilesPass(ModulePass):
    """
    What is left of the tile dialect in a kernel becomes loops, memory and what threads exchange.

    Register axes become local arrays and unrolled loops; reduces become loops with accumulators,
    stages and rings copies by all threads, combines shuffles and shared scratch.

    *Legal for* every kernel that `bind-axes` leaves, if a block can have the shared memory that it
    needs and its rings can be filled as they say.
    """

    name = "materialize-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for source in [f for f in op.walk() if isinstance(f, kernel.FuncOp)]:
            if not any(tile.tile_ops(source)):
                continue
            e = Emitter(source)
            emit_body(e)
            _check_shared_memory(e.func, target_of(op))
            Rewriter.replace_op(source, e.func)


def _check_shared_memory(func: kernel.FuncOp, target: Target) -> None:
    if (need := shared_slots(func)[1]) > target.shared_per_block:
        fail(
            func,
            f"kernel '{func.name_}' needs {need} B of shared memory, and a block on {target.name} "
            f"can have {target.shared_per_block} B",
            "stage less (`stage-inputs{budget=…}`), use fewer slots, or give a block fewer rows",
        )
