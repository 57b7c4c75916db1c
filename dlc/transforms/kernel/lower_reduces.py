"""Reduces become loops that fold, combines, scans and sorts what threads exchange."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects import kernel, tile
from dlc.dialects.kernel_op import kernels_in
from dlc.transforms.kernel.lowering.accumulation import ReduceNest, lower_reduce
from dlc.transforms.kernel.lowering.combines import lower_combine
from dlc.transforms.kernel.lowering.product_turns import take_turns
from dlc.transforms.kernel.lowering.products_ahead import request_ahead
from dlc.transforms.kernel.lowering.reduce_lowering import ReduceLowering
from dlc.transforms.kernel.lowering.rising import read_so_far
from dlc.transforms.kernel.lowering.scan_lowering import lower_scan
from dlc.transforms.kernel.lowering.sort_lowering import lower_sort
from dlc.transforms.kernel.lowering.what_is_left import refuse_what_is_left

Lowered = tile.ReduceOp | tile.CombineOp | tile.ScanOp | tile.SortOp | tile.SoFarOp


@dataclass(frozen=True)
class LowerReducesPass(ModulePass):
    """
    Reduces become loops that fold into accumulators; combines become shuffles and shared scratch,
    and scans both, with what a thread carries from one iteration to the next.

    Sorts become comparisons of what threads hold in registers, which they exchange in shared
    memory; a thread alone sorts in memory of its own.
    An accumulator is memory of a thread with an element for each point of the register axes along
    which the result varies: of several results, each its own. A reduce that is only yielded
    straight into another of the same monoid folds into the accumulators of that one. A product is
    added unrounded, by `math.fma`. Threads of a warp exchange what they combine by shuffles, warps
    through shared memory. Where the largest exponent of a reduce only rises, what it has so far is
    multiplied before the sums of warps are added, in place. Warpgroups that multiply in turns get
    the mbarriers by which they do.

    *Legal always*: the threads of a block run in lockstep, so that scratch is read after all wrote.
    *Why*: what is folded where, and in which order, is settled before anything is unrolled.

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
    """

    name = "lower-reduces"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in kernels_in(op, kernel.FuncOp):
            found = [o for o in func.walk() if isinstance(o, Lowered)]
            if found:
                refuse_what_is_left(func, "lower-stages")
                _lower(ReduceLowering(func), found)


def _lower(to: ReduceLowering, found: list[Lowered]) -> None:
    """Lowers reduces, combines, scans and sorts, those around others first."""
    nests: dict[tile.ReduceOp, ReduceNest] = {}
    around: dict[tile.SoFarOp, ReduceNest] = {}
    for op in found:
        if isinstance(op, tile.ReduceOp):
            nests[op] = ReduceNest(op, nests)
        elif isinstance(op, tile.SoFarOp) and (reduce := op.reduce_around()) is not None:
            around[op] = nests[reduce]
    for op in found:
        if isinstance(op, tile.ReduceOp):
            lower_reduce(to, nests[op])
        elif isinstance(op, tile.ScanOp):
            lower_scan(to, op)
        elif isinstance(op, tile.SortOp):
            lower_sort(to, op)
        elif isinstance(op, tile.SoFarOp):
            read_so_far(to, op, around[op].totals)
        else:
            lower_combine(to, op)
    request_ahead(to)
    take_turns(to)
