"""Tiles become loops, memory and what threads exchange."""

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

_LOWER_THEM = "run lower-stages first"


@dataclass(frozen=True)
class MaterializeTilesPass(ModulePass):
    """
    What is left of the tile dialect in a kernel becomes loops, memory and what threads exchange.

    Register axes become local arrays and unrolled loops; reduces become loops with accumulators,
    combines shuffles and shared scratch.

    *Legal when* a block can have the shared memory that the kernel needs.
    *Why*: a GPU's thread computes with scalars, and an array is held in registers only where all
    subscripts are known once its loops are unrolled.

    ```
    tile.for register(%r in 3) {
      %s = tile.reduce add serial(%k in 8) -> f32 {
        %a = tile.load %x[%k, %r]
        tile.yield %a : f32
      }
      tile.store %s, %y[%r]
    }
    ```
    becomes
    ```
    %s = kernel.alloc_local : memref<3xf32, #kernel.local>
    scf.for %r = … { kernel.store %zero, %s[%r] } {unroll}
    scf.for %k = … {
      … %s[%r] + %x[%k, %r] …
    }
    scf.for %r = … {
      %v = kernel.load %s[%r]
      kernel.store %v, %y[%r]
    } {unroll}
    ```
    """

    name = "materialize-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for source in [f for f in op.walk() if isinstance(f, kernel.FuncOp)]:
            if not any(tile.tile_ops(source)):
                continue
            for left in source.walk():
                if isinstance(left, tile.StageOp | tile.ComputeOp | tile.RingOp):
                    fail(left, f"expected no stages and rings, found '{left.name}'", _LOWER_THEM)
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
