"""Each reduce stands inside the loops that it varies along."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from dlc.dialects.loop import KernelOp
from dlc.transforms.loop.fusion.nesting import nest


@dataclass(frozen=True)
class NestLoopsPass(ModulePass):
    """
    Splits loops around their reduces: each stands inside the axes that it varies along and no
    others, as far as these sets of axes are nested in each other.

    *Legal always*: the points of a loop are independent.
    *Faster because* a reduce is computed once for all points of the axes that it does not vary
    along.

    ```
    loop.for %i in 32, %j in 64 {
      %s = loop.reduce add %k in 64 -> f32 { %a = loop.load %x[%i, %k] … }
      %b = loop.load %x[%i, %j] : memref<32x64xf32>
      …
    ```
    becomes
    ```
    loop.for %row in 32 {
      %s = loop.reduce add %k in 64 -> f32 { %a = loop.load %x[%row, %k] … }
      loop.for %c in 64 {
        %b = loop.load %x[%row, %c] : memref<32x64xf32>
        …
    ```

    By default, `fuse-loops` does this, to the kernels that it merges: what `lift-to-loops` makes
    holds one reduce, in its place.
    """

    name = "nest-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                nest(kernel)
