"""What does not vary along a loop is computed before it, and once."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.hoisting import hoist


@dataclass(frozen=True)
class HoistInvariantsPass(ModulePass):
    """
    Moves every operation of a loop kernel out of the loops that it does not vary along (loop-
    invariant code motion), and makes equal ones one (common subexpression elimination).

    *Legal always*: the points of a loop are independent and inputs are only read; what reads an
    output stays. A load moves out of loops over some points only, `canonicalize-loops` having
    removed the others: it reads nothing that was not read before.
    *Faster because* nothing is computed twice.

    ```
    loop.for %i in 32, %j in 64 {
      %n = arith.constant 6.400000e+01 : f32
      %a = loop.load %x[%i, %j] : memref<32x64xf32>
      %b = loop.load %x[%i, %j] : memref<32x64xf32>
      …
    ```
    becomes
    ```
    %n = arith.constant 6.400000e+01 : f32
    loop.for %i in 32, %j in 64 {
      %a = loop.load %x[%i, %j] : memref<32x64xf32>
      …
    ```
    """

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                hoist(kernel)
