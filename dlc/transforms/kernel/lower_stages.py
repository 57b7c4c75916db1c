"""Stages and rings become shared memory, the copies into it and the waits for these."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.dialects import kernel, tile
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.ring_ops import TMA, ChunkOp
from dlc.target import target_of
from dlc.transforms.kernel.lowering import tma
from dlc.transforms.kernel.lowering.copies import lower_acquire, lower_fill, lower_stage
from dlc.transforms.kernel.lowering.slabs import lower_compute, lower_hold, lower_share
from dlc.transforms.kernel.lowering.stage_lowering import StageLowering
from dlc.transforms.kernel.lowering.table_lowering import lower_table

_LOWERED = tile.StageOp | tile.ComputeOp | tile.HoldOp | tile.ShareOp | tile.RingOp | ChunkOp


@dataclass(frozen=True)
class LowerStagesPass(ModulePass):
    """
    Stages and rings become buffers in shared memory, the copies into them and the waits for these.

    All threads of a block copy or compute a slab together, each some runs of neighbouring elements;
    a ring of `tma` is filled by requests of one thread. An acquired slot is a subscript of its
    ring. Of a computed slab, the place within a run becomes a register axis. What a block adds up
    at places that are data has a table there, of zeros first, which its threads add to the output.

    *Legal when* rings can be filled as they say: one by the tensor memory accelerator needs a loop
    of its own, and slots and slabs that it can write and read. A chunk is acquired only after it
    was filled.
    *Why*: which instruction copies, and what waits for it, is settled before anything is unrolled.

    ```
    %r = tile.ring async %x(%n in 8)[%n * 32] [32]
    %a = tile.reduce add serial(%k in 8) -> f32 {
      tile.fill %r[%k]
      %s = tile.acquire %r[%k]
      %v = tile.load %s[31 - %t]
      tile.release %r[%k]
      tile.yield %v : f32
    }
    ```
    becomes
    ```
    %r = kernel.alloc_shared
    %a = tile.reduce add serial(%k in 8) -> f32 {
      %slot = kernel.index %k mod 2
      kernel.cp_async %x[…], %r[%slot, %t]
      kernel.commit
      kernel.wait 0
      %v = tile.load %r[%slot, -%t + 31]
      tile.yield %v : f32
    }
    ```
    """

    name = "lower-stages"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in kernels_in(op, kernel.FuncOp):
            if lowered := [o for o in func.walk() if _is_lowered(o)]:
                to = StageLowering(func, target_of(op))
                for old in lowered:
                    _lower(to, old)
                _read_buffers(to)
                for old in reversed(lowered):
                    Rewriter.erase_op(old)
                tma.separate_producer(to)
                tma.end_cluster(to)


def _is_lowered(op: Operation) -> bool:
    adds = isinstance(op, tile.AtomicAddOp) and op.in_block is not None
    return adds or isinstance(op, _LOWERED)


def _lower(to: StageLowering, op: Operation) -> None:
    """Inserts what an op becomes in front of it."""
    to.before(op)
    match op:
        case tile.StageOp():
            lower_stage(to, op)
        case tile.ComputeOp():
            lower_compute(to, op)
        case tile.HoldOp():
            lower_hold(to, op)
        case tile.ShareOp():
            lower_share(to, op)
        case tile.AtomicAddOp():
            lower_table(to, op)
        case tile.RingOp():
            to.buffers[op] = to.allocate(op.result)
            if op.fill_kind == TMA:
                tma.make_tensor_map(to, op)
        case tile.FillOp():
            (tma.lower_fill if op.source.fill_kind == TMA else lower_fill)(to, op)
        case tile.AcquireOp():
            lower_acquire(to, op)
        case tile.ReleaseOp():
            if op.source.fill_kind == TMA:  # else a barrier is placed where accesses demand it
                tma.lower_release(to, op)
        case _:
            raise AssertionError(f"no stage or ring: {op.name}")


def _read_buffers(to: StageLowering) -> None:
    """Loads from stages and slots become loads from their buffers."""
    for slab, (buffer, slot) in to.slabs.items():
        for use in list(slab.uses):
            load = use.operation
            assert isinstance(load, tile.LoadOp)
            load.operands[use.index] = buffer
            load.set_index([*slot, *load.subscripts], load.where)
