"""Reduces that share an operand are computed side by side."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.hoisting import hoist
from dlc.transforms.loop.fusion.joining import join_reduces


@dataclass(frozen=True)
class JoinReducesPass(ModulePass):
    """
    Makes reduces side by side that run over the same points and load the same elements one reduce
    of several values (horizontal fusion): contractions, if of the same rows and columns, and sums
    that are none.

    *Legal when* neither needs what the other gives: each value is folded as before.
    *Faster because* the shared operand is loaded once: one sweep of memory finds a sum and one of
    squares, and contractions are tiled as one product is.

    ```
    %a = loop.reduce add %k in 64 -> f32 { … loop.load %x[%i, %k] … loop.yield %u : f32 }
    %b = loop.reduce add %k in 64 -> f32 { … loop.load %x[%i, %k] … loop.yield %v : f32 }
    ```
    becomes
    ```
    %a, %b = loop.reduce add %k in 64 -> (f32, f32) {
      … loop.load %x[%i, %k] … loop.yield %u, %v : f32, f32
    }
    ```

    By default, `fuse-loops` does this, to the kernels that it merges: what `lift-to-loops` makes
    holds one reduce.
    """

    name = "join-reduces"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp) and join_reduces(kernel):
                hoist(kernel)  # what both had in their bodies becomes one
