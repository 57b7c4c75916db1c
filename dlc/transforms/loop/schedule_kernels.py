"""Kernels get the schedules that the cost model likes best."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from dlc.dialects import loop
from dlc.dialects.kernel_op import TUNED, kernels_in
from dlc.dialects.size_index import narrow_sizes
from dlc.passes import CHOOSING
from dlc.remarks import remark
from dlc.transforms.step import ensure_schedule


@dataclass(frozen=True)
class ScheduleKernelsPass(ModulePass):
    """
    Writes the default schedule for the module's target on every Loop IR kernel that has none.

    *Legal always*: a schedule does nothing by itself.
    *Why*: each of the sixteen steps that follow acts on a kernel as its schedule says, or not at
    all.

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
        for kernel in kernels_in(op, loop.KernelOp):
            narrow_sizes(kernel, kernel.refs)
            if kernel.schedule is not None:
                remark(self.name, kernel.name_, f"keeps {kernel.schedule.data}")
                if isinstance(found := kernel.attributes.get(TUNED), StringAttr):
                    remark(self.name, kernel.name_, f"because {found.data}")
            else:
                ensure_schedule(kernel, op)
