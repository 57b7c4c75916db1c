"""Register axes become local arrays and unrolled loops: nothing of the tile dialect is left."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.diagnostics import fail
from dlc.dialects import kernel, tile
from dlc.dialects.kernel_op import kernels_in
from dlc.target import Target, target_of
from dlc.transforms.kernel.lowering.nests import lower_body
from dlc.transforms.kernel.lowering.register_lowering import RegisterLowering
from dlc.transforms.kernel.lowering.what_is_left import refuse_what_is_left


@dataclass(frozen=True)
class LowerRegistersPass(ModulePass):
    """
    Register axes become local arrays and unrolled loops; nothing of the tile dialect is left.

    Neighbouring operations that vary along the same register axes share their loops. A value that
    is used elsewhere, too, is kept in an array with an element for each point; an access to
    neighbouring elements has loops of its own. Accumulators are such arrays, set before what folds
    into them. Serial axes become loops, and shared memory is defined at the top.

    *Legal when* a block can have the shared memory that the kernel needs.
    *Why*: a GPU's thread computes with scalars, and an array is held in registers only where all
    subscripts are known once its loops are unrolled.

    ```
    tile.for register(%r in 3) {
      %s = tile.accumulator %zero over(%r) : f32 -> memref<3xf32, #kernel.local>
      tile.for serial(%k in 8) {
        %a = tile.load %x[%k, %r]
        tile.each over(%r) {
          … %s[%r] + %a …
        }
      }
      %v = tile.load %s[%r]
      tile.store %v, %y[%r]
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

    name = "lower-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for source in kernels_in(op, kernel.FuncOp):
            if not any(tile.tile_ops(source)):
                continue
            refuse_what_is_left(source, "lower-stages", "lower-reduces")
            to = RegisterLowering(source)
            lower_body(to)
            _check_shared_memory(to.func, target_of(op))
            Rewriter.replace_op(source, to.func)


def _check_shared_memory(func: kernel.FuncOp, target: Target) -> None:
    if (need := shared_slots(func)[1]) > target.shared_per_block:
        fail(
            func,
            f"kernel '{func.name_}' needs {need} B of shared memory, and a block on {target.name} "
            f"can have {target.shared_per_block} B",
            "stage less (`stage-inputs{budget=…}`), use fewer slots, or give a block fewer rows",
        )
