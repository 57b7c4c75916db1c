"""Kernels that do the same are compiled once and launched again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.dialects import loop
from dlc.dialects.kernel import LaunchOp
from dlc.dialects.kernel_op import KernelOpBase, kernels_in
from dlc.ir.provenance import inherit
from dlc.ir.structure import structure
from dlc.remarks import remark
from dlc.transforms.loop.sharing.updated_boxes import Boxed, boxed


@dataclass(frozen=True)
class ShareKernelsPass(ModulePass):
    """
    A kernel that does the same as one before it becomes another launch of that one.

    *Legal when* the two are of one structure (`dlc.ir.structure`), which includes types, strides
    and what is known of alignments: they then differ in names and in the tensors that they read.
    *Faster because* the layers of a model are scheduled, printed and compiled once.

    ```
    %b = loop.kernel @exp(%a: memref<64xf32> = %a) -> (%b: memref<64xf32>) { … }
    %d = loop.kernel @exp_2(%c: memref<64xf32> = %c) -> (%d: memref<64xf32>) { … }
    ```
    becomes
    ```
    %b = loop.kernel @exp(%a: memref<64xf32> = %a) -> (%b: memref<64xf32>) { … }
    %d = kernel.launch @exp(%c) : (tensor<64xf32>) -> (tensor<64xf32>)
    ```
    Kernels that would be one but for where in a tensor they store, as those of a concatenation's
    pieces, each get a view of what they store to (`dlc.dialects.views`).
    """

    name = "share-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _view_boxes(op)
        alike: dict[Hashable, list[KernelOpBase]] = {}
        for kernel in kernels_in(op, KernelOpBase):
            alike.setdefault(structure(kernel), []).append(kernel)
        for first, *others in alike.values():
            if others:
                share(first, others)


def _view_boxes(module: ModuleOp) -> None:
    """Has kernels that differ in the places of a tensor that they update do so by views of it."""
    alike: dict[Hashable, list[Boxed]] = {}
    for kernel in kernels_in(module, loop.KernelOp):
        if (found := boxed(kernel)) is not None:
            alike.setdefault(structure(found.alone), []).append(found)
    for group in alike.values():
        differ = len({structure(one.kernel) for one in group}) > 1
        for one in group:
            if not differ:
                one.alone.erase()
                continue
            name, places = one.kernel.name_, ", ".join(map(str, one.begin))
            one.replace()
            remark(ShareKernelsPass.name, name, f"updates a view at [{places}]")


def share(first: KernelOpBase, others: Sequence[KernelOpBase]) -> None:
    """Launches `first` in the place of kernels of its structure."""
    names = ", ".join(f"@{kernel.name_}" for kernel in others)
    remark(ShareKernelsPass.name, first.name_, f"launched {len(others) + 1} times: it is {names}")
    refs = zip(*(kernel.input_refs for kernel in (first, *others)), strict=True)
    first.name_inputs([common_name([ref.name_hint for ref in same]) for same in refs])
    for kernel in others:
        launch = LaunchOp(first.name_, kernel.inputs, [v.type for v in kernel.outputs])
        launch.location = kernel.location
        inherit(launch, kernel)
        Rewriter.replace_op(kernel, launch)


def common_name(names: Sequence[str | None]) -> str | None:
    """The last words that names have in common, such as `q_proj_weight`; else the first name."""
    words = [(name or "").split("_")[::-1] for name in names]
    common = [column[0] for column in takewhile(lambda c: len({*c}) == 1, zip(*words))]
    suffix = "_".join(reversed(common))
    return suffix if suffix.isidentifier() else names[0]
