"""The pass `share-kernels`: see `ShareKernelsPass`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.dialects.graph import KernelOpBase
from dlc.dialects.kernel import LaunchOp
from dlc.ir.provenance import inherit
from dlc.ir.structure import structure
from dlc.remarks import remark


@dataclass(frozen=True)
class ShareKernelsPass(ModulePass):
    """
    A kernel that does the same as one before it becomes another launch of that one.

    Legal where the two are of one structure (`dlc.ir.structure`), which includes types, strides
    and what is known of alignments: they then differ in names and in the tensors that they read.
    Faster to compile: the layers of a model are scheduled, printed and compiled once.

    ```
    %b = loop.kernel @exp(%a: memref<64xf32> = %a) -> (%b: memref<64xf32>) { … }
    %d = loop.kernel @exp_2(%c: memref<64xf32> = %c) -> (%d: memref<64xf32>) { … }
    ```
    becomes
    ```
    %b = loop.kernel @exp(%a: memref<64xf32> = %a) -> (%b: memref<64xf32>) { … }
    %d = kernel.launch @exp(%c) : (tensor<64xf32>) -> (tensor<64xf32>)
    ```
    """

    name = "share-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        firsts: dict[Hashable, KernelOpBase] = {}
        repeats: dict[KernelOpBase, list[str]] = {}
        for kernel in [k for k in op.walk() if isinstance(k, KernelOpBase)]:
            first = firsts.setdefault(structure(kernel), kernel)
            if first is kernel:
                continue
            repeats.setdefault(first, []).append(kernel.name_)
            launch = LaunchOp(first.name_, kernel.inputs, [v.type for v in kernel.outputs])
            launch.location = kernel.location
            inherit(launch, kernel)
            Rewriter.replace_op(kernel, launch)
        for first, names in repeats.items():
            again = ", ".join(f"@{name}" for name in names)
            remark(self.name, first.name_, f"launched {len(names) + 1} times: it is {again}, too")
