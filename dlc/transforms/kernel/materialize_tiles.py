"""Tile IR becomes Kernel IR: see `MaterializeTilesPass`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.shared_memory import shared_slots
from dlc.diagnostics import fail
from dlc.dialects import kernel, loop, tile
from dlc.ir.expr import unchanged_ir
from dlc.ir.provenance import inherit
from dlc.remarks import remark
from dlc.target import Target, target_of
from dlc.transforms.axes.loop_to_tile import as_tile
from dlc.transforms.kernel.materialization.body import emit_launch
from dlc.transforms.kernel.materialization.emitter import Emitter
from dlc.transforms.kernel.materialization.launch import decode_axes


@dataclass(frozen=True)
class MaterializeTilesPass(ModulePass):
    """
    Every kernel becomes a `kernel.func`, and a `kernel.launch` in its place.

    Legal for every state of a kernel: one still in the loop dialect becomes one thread. Block and
    thread axes become a grid of blocks, serial axes loops, register axes local arrays and
    unrolled loops; stages become copies by all threads, combines shuffles and shared scratch.
    The threads of a block run in lockstep until `place-barriers`.
    """

    name = "materialize-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for source in [k for k in op.walk() if isinstance(k, loop.KernelOp | tile.KernelOp)]:
            if isinstance(source, loop.KernelOp):
                source = as_tile(source)
            with unchanged_ir():
                func = materialize(source)
            _check_shared_memory(func, target_of(op), source)
            _replace(source, func, op)
            remark(self.name, func.name_, f"grid {func.grid_size}, block {func.block_size}")


def materialize(source: tile.KernelOp) -> kernel.FuncOp:
    """The Kernel IR of a tile kernel, in lockstep."""
    e = Emitter(source)
    func = kernel.FuncOp(
        source.name_,
        Region(e.body),
        [int(a) for a in source.alignments.get_values()],
        1,
        1,
        None if source.schedule is None else source.schedule.data,
        [source.output_refs.index(ref) for ref in source.zeroed_refs],
        lockstep=True,
    )
    decode_axes(e, func)
    emit_launch(e)
    return func


def _check_shared_memory(func: kernel.FuncOp, target: Target, source: tile.KernelOp) -> None:
    if (need := shared_slots(func)[1]) > target.shared_per_block:
        fail(
            source,
            f"kernel '{func.name_}' needs {need} B of shared memory, and a block on {target.name} "
            f"can have {target.shared_per_block} B",
            "stage less (`stage-inputs{budget=…}`), use fewer slots, or give a block fewer rows",
        )


def _replace(source: tile.KernelOp, func: kernel.FuncOp, module: ModuleOp) -> None:
    """Puts a launch where the kernel was, and the kernel itself into the module."""
    launch = kernel.LaunchOp(source.name_, source.inputs, [r.type for r in source.outputs])
    launch.location = source.location
    inherit(launch, source)
    Rewriter.replace_op(source, launch)
    outermost = launch
    while (parent := outermost.parent_op()) is not module and parent is not None:
        outermost = parent
    Rewriter.insert_op(func, InsertPoint.before(outermost))
