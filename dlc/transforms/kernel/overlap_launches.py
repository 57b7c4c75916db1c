"""Kernels begin before the ones ahead of them end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from dlc.analysis.kernel.early_inputs import kept_inputs, read_in_order
from dlc.dialects import kernel
from dlc.dialects.kernel_grids import touches_arguments, waits_for_grids
from dlc.dialects.kernel_memory import memref_of
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.layouts import shape_of, strides_of
from dlc.ir.sizes import Size
from dlc.remarks import remark
from dlc.schedule.ahead import bytes_ahead
from dlc.target import Target, target_of


@dataclass(frozen=True)
class OverlapLaunchesPass(ModulePass):
    """
    Kernels begin before the ones ahead of them end: each waits for those where it first touches
    memory that it is given, and lets the next one begin then (programmatic dependent launch).

    Before it waits, each block asks for its share of what no launch of the program writes, and
    what is read at places that no data tells: the weights of a model, if the share is a number.

    *Legal when* the chip has `griddepcontrol`. What a kernel does before it has waited concerns
    itself alone, and what it waits for has waited as well, so that all that was launched before has
    ended. What is asked for into the L2 cache changes nothing, whoever writes it.
    *Faster because* blocks are started, and mbarriers made, while the kernel ahead finishes, and
    memory goes on to be read. Loads do without the read-only cache, which is not kept up to date
    between kernels that overlap, so that a norm may load its row once more. By default, it
    does not run: an H200 leaves 0.1 us between kernels of a graph, and was slower so
    (bench/NOTES.md). `dlc.compile` has `overlap=True`, `dlc generate` has `--overlap`.

    ```
    kernel.func @scale(%x: memref<64xf32>, %w: memref<64xf32>) -> (%y: memref<64xf32>) … {
      %tid = kernel.thread_id
      %v = kernel.load %x[…]
      …
    ```
    becomes
    ```
    kernel.func @scale(%x: memref<64xf32>, %w: memref<64xf32>) -> (%y: memref<64xf32>) … {
      %tid = kernel.thread_id
      kernel.prefetch %w bytes 256 : memref<64xf32>
      kernel.grid_wait
      kernel.grid_release
      %v = kernel.load %x[…]
      …
    ```
    """

    name = "overlap-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        kept = kept_inputs(op)
        for func in kernels_in(op, kernel.FuncOp):
            if not target.has("griddepcontrol"):
                remark(self.name, func.name_, target.lacking("griddepcontrol"))
            elif not waits_for_grids(func):
                refs = [func.input_refs[n] for n in kept.get(func.name_, [])]
                asked = [ref for ref in refs if read_in_order(ref)]
                _wait(func, asked if self._has_shares(func, asked) else [], target)

    def _has_shares(self, func: kernel.FuncOp, asked: Sequence[SSAValue]) -> bool:
        """True if there are blocks, and a block's share of each input is a number of bytes."""
        types = [memref_of(ref) for ref in asked]
        lengths = chain.from_iterable((*shape_of(t), *strides_of(t)) for t in types)
        sizes = [n for n in (func.grid_size, *lengths) if isinstance(n, Size)]
        if asked and sizes:
            remark(self.name, func.name_, f"asks for nothing ahead: {sizes[0]} is not known")
        return not sizes and func.grid_size > 0


def _wait(func: kernel.FuncOp, asked: Sequence[SSAValue], target: Target) -> None:
    """
    Inserts the two where a kernel first touches what it is given, or else at its end; ahead of them
    what asks for inputs.
    """
    block = func.body.block
    first = next((op for op in block.ops if touches_arguments(op, func)), None)
    place = InsertPoint.at_end(block) if first is None else InsertPoint.before(first)
    early = [kernel.PrefetchOp(r, bytes_ahead(func, r, asked, target)) for r in asked]
    Rewriter.insert_op([*early, kernel.GridWaitOp(), kernel.GridReleaseOp()], place)
