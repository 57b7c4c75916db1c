"""Kernels get the schedules that the cost model likes best."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from dlc.analysis.loop.same_inputs import reading_the_same
from dlc.dialects import flow, loop
from dlc.dialects.kernel_op import TUNED, kernels_in
from dlc.dialects.size_index import narrow_sizes
from dlc.passes import CHOOSING
from dlc.remarks import remark
from dlc.schedule.heuristics import Choice, choose_together
from dlc.target import target_of
from dlc.transforms.step import ensure_schedule


@dataclass(frozen=True)
class ScheduleKernelsPass(ModulePass):
    """
    Writes the default schedule for the module's target on every Loop IR kernel that has none.

    *Legal always*: a schedule does nothing by itself.
    *Why*: each of the sixteen steps that follow acts on a kernel as its schedule says, or not at
    all. Products that read the same get schedules by which one launch of all ends without a second
    kernel, where that is estimated to be faster than the fastest ones of each.

    A schedule is a pipeline string with every option stated, to be read, edited and kept:

    ```
    %y = loop.kernel @relu(%x: memref<64x1000xf32> = %x) -> (%y: memref<64x1000xf32>) { … }
    ```
    becomes
    ```
    %y = loop.kernel @relu(%x: memref<64x1000xf32> = %x) -> (%y: memref<64x1000xf32>)
        schedule "tileify,blockify-launch{block=1024 thread=256},register-tile{extents=4}" { … }
    ```
    """

    name = CHOOSING

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = kernels_in(op, loop.KernelOp)
        for kernel in kernels:
            narrow_sizes(kernel, kernel.refs)
        together = _chosen_together(op)
        for kernel in kernels:
            if kernel.schedule is not None:
                remark(self.name, kernel.name_, f"keeps {kernel.schedule.data}")
                if isinstance(found := kernel.attributes.get(TUNED), StringAttr):
                    remark(self.name, kernel.name_, f"because {found.data}")
            else:
                ensure_schedule(kernel, op, together.get(kernel))


def _chosen_together(module: ModuleOp) -> dict[loop.KernelOp, Choice]:
    """The schedules of kernels for which others are chosen in one launch than alone."""
    found: dict[loop.KernelOp, Choice] = {}
    for function in [f for f in module.ops if isinstance(f, func.FuncOp) and f.body.blocks]:
        for block in flow.blocks_of(function.body.block):
            for group in reading_the_same(block):
                if all(kernel.schedule is None and kernel not in found for kernel in group):
                    found |= choose_together(group, target_of(module))
    return found
