"""Divisions by what a loop does not vary along become products with its reciprocal."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.reciprocals import take_reciprocals


@dataclass(frozen=True)
class TakeReciprocalsPass(ModulePass):
    """
    Makes divisions by a value from before their loop products with its reciprocal.

    *Legal when* the divisor is known to lie where reciprocals are neither subnormal nor infinite,
    as a sum of powers of e of differences from the largest does, or a norm that is clamped: a
    quotient then is off by one rounding more. Where the kernel rounds it to an integer, compares
    it or finds the place of the best one, whatever it computes of it before, it stays. A factor of
    both e^(x - x), which is 1 or NaN, is left out of the dividend.
    *Faster because* a division takes ten instructions, a product one.

    ```
    loop.for %c in 512 {
      …
      %y = arith.divf %e, %sum : f32
    ```
    becomes
    ```
    %sum_reciprocal = arith.divf %one, %sum : f32
    loop.for %c in 512 {
      …
      %y = arith.mulf %e, %sum_reciprocal : f32
    ```

    By default, `fuse-loops` does this, to the kernels that it merges: what `lift-to-loops` makes
    divides by what it loads.
    """

    name = "take-reciprocals"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                take_reciprocals(kernel)
