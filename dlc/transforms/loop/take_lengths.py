"""Masks that compare places with numbers from memory become conditions of selects."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.lengths import take_lengths


@dataclass(frozen=True)
class TakeLengthsPass(ModulePass):
    """
    Writes what a reduce makes -inf beside places that other axes or memory tell, such as a window
    of keys or the length of a row, as selects with conditions.

    *Legal when* each side of the comparison is a sum of axes, of constants, and at most one of them
    of one integer from before the reduce. That integer may be any: the nearest one at which the
    condition may change takes its place, so that no index overflows. Sums of integers in the
    program are taken not to overflow.
    *Faster because* chunks of which all is masked can be known: `stage-inputs` skips them, and what
    attention over a cache takes is what its length takes, not its capacity.

    ```
    %n = loop.load %lengths[%b] : memref<64xi64>
    %m = loop.reduce max %k in 2048 -> f32 {
      %seen = arith.cmpi slt, %k, %n : i64
      %y = arith.select %seen, %x, %minus_inf : f32
    ```
    becomes
    ```
    %a = arith.maxsi %n, %zero : i64
    %b = arith.minsi %a, %2048 : i64
    %l = arith.index_cast %b : i64 to index
    %m = loop.reduce max %k in 2048 -> f32 {
      %y = loop.select %x where (%l - %k >= 1) else %minus_inf : f32
    ```

    By default, `fuse-loops` does this, to the kernels that it merges.
    """

    name = "take-lengths"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                take_lengths(kernel)
