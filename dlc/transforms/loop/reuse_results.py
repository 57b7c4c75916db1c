"""What kernels compute alike, of the same tensors, is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from dlc.dialects.fusion_plan import has_wishes
from dlc.dialects.kernel_op import kernels_in
from dlc.dialects.loop import KernelOp
from dlc.ir.provenance import ops_of, set_ops, set_value, values_of
from dlc.ir.structure import itself, structure
from dlc.remarks import remark


@dataclass(frozen=True)
class ReuseResultsPass(ModulePass):
    """
    A kernel that does what one before it does, to the same tensors, is gone: what read its results
    reads those of the other one.

    *Legal when* neither has a schedule, a wish or a group of a plan, or updates memory in place,
    and kernels alone read the results, and update none: two that are returned are two tensors, and
    so are two that a loop carries, each in memory of its own.
    *Faster because* nothing is computed twice where a program writes it twice, as
    `(x.softmax(1) * t).sum() / x.softmax(1).sum()` does.

    ```
    %a = loop.kernel @exp(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) { … }
    %b = loop.kernel @exp_1(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) { … }
    %c = loop.kernel @add(%a: memref<8xf32> = %a, %b: memref<8xf32> = %b) -> … { … }
    ```
    becomes
    ```
    %a = loop.kernel @exp(%x: memref<8xf32> = %x) -> (%y: memref<8xf32>) { … }
    %c = loop.kernel @add(%a: memref<8xf32> = %a, %b: memref<8xf32> = %a) -> … { … }
    ```
    """

    name = "reuse-results"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        seen: dict[tuple[Block | None, Hashable], KernelOp] = {}
        for kernel in kernels_in(op, KernelOp):
            if kernel.updates is not None or kernel.schedule is not None or has_wishes(kernel):
                continue
            first = seen.setdefault((kernel.parent, structure(kernel, itself)), kernel)
            if first is kernel or not (_is_read(first, returned=True) and _is_read(kernel)):
                continue
            remark(self.name, first.name_, f"@{kernel.name_} would do the same")
            texts = values_of(kernel, len(kernel.results))
            for result, text in zip(first.results, texts, strict=True):
                set_value(result, text)
            set_ops(first, ops_of(first, kernel))
            Rewriter.replace_op(kernel, [], first.results)


def _is_read(kernel: KernelOp, *, returned: bool = False) -> bool:
    """True if kernels alone read the results, and write none of them, but for what is returned."""
    users = [use.operation for result in kernel.results for use in result.uses]
    kernels = [user for user in users if isinstance(user, KernelOp)]
    others = [user for user in users if not isinstance(user, KernelOp)]
    known = all(returned and isinstance(user, func.ReturnOp) for user in others)
    return known and all(reader.updates is None for reader in kernels)
