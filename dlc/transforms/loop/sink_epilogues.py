"""Epilogues follow the loops that sum, with the loads that only they need."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.sinking import sink


@dataclass(frozen=True)
class SinkEpiloguesPass(ModulePass):
    """
    Moves what no reduce of a block needs after the last one (code sinking).

    *Legal always*: what moves has no effect, and inputs are only read.
    *Faster because* an epilogue's operands are loaded after the loop that sums, and no register
    holds them through it.

    ```
    loop.for %i in 4, %j in 8 {
      %b = loop.load %bias[%j] : memref<8xf32>
      %s = loop.reduce add %k in 16 -> f32 { … }
      %y = arith.addf %s, %b : f32
      …
    ```
    becomes
    ```
    loop.for %i in 4, %j in 8 {
      %s = loop.reduce add %k in 16 -> f32 { … }
      %b = loop.load %bias[%j] : memref<8xf32>
      %y = arith.addf %s, %b : f32
      …
    ```

    By default, `fuse-loops` does this, to the kernels that it merges: what `lift-to-loops` makes
    has no epilogue.
    """

    name = "sink-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                sink(kernel)
